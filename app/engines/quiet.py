"""Keeps transformers' bars and hints off the terminal while a model is loaded. Errors are raised as ever."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging


@contextmanager
def loading() -> Iterator[None]:
    """Only errors are logged within, and no bars are drawn."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def silence() -> Iterator[None]:
    """Not even errors are logged within: for a trial that may fail."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
