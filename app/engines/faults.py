"""Faults of a model, in words for the person where there are better ones than the library's."""

from app.errors import Unavailable

_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


class Unbatched(Unavailable):
    """The model can't be run by continuous batching."""


class NoMemory(Unavailable):
    """The model does not fit into the memory that is free."""


def told(fault: BaseException) -> BaseException:
    """A fault as it is raised where an answer is read: want of memory in plain words, any other as it is."""
    if is_of_memory(fault):
        # Not chained: its traceback would hold the memory that is wanted.
        return Unavailable("The machine has not enough memory for this answer. A shorter conversation may do.")
    return fault


def is_of_memory(fault: BaseException) -> bool:
    """Whether it was memory that was wanting, on the processor or on a GPU."""
    # torch tells by a type of its own on a GPU, by words only on a CPU.
    if isinstance(fault, MemoryError) or type(fault).__name__ == "OutOfMemoryError":
        return True
    return isinstance(fault, RuntimeError) and any(words in str(fault) for words in _OF_MEMORY)
