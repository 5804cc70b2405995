"""Keeps transformers' bars and hints off the terminal while a model is loaded. Errors are raised as ever."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger

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
    """Faults of continuous batching are not logged within: for a trial that may fail."""
    logger = getLogger("ContinuousBatchingLogger")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False
