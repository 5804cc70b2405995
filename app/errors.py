"""The errors that people are told about: a status and words for the person."""

from typing import Self

from app.texts import storable


class AppError(Exception):
    """An expected fault. `words` is shown to the person as it is; `status` is the HTTP status.

    Words of callers, libraries and other servers may be in it: what can't be sent or kept of them is replaced.
    """

    status = 500

    def __init__(self, words: str) -> None:
        self.words = storable(words)
        super().__init__(self.words)


class Invalid(AppError):
    """The person gave something that can't be used."""

    status = 422


class TooLong(Invalid):
    """A conversation of more tokens than the model takes."""

    def __init__(self, tokens: int, window: int) -> None:
        super().__init__(f"The conversation is too long for this model: {tokens} tokens, and it takes {window}.")
        self.tokens = tokens
        self.window = window


class NotFound(AppError):
    """There is no such thing, or it is not this person's."""

    status = 404


class Refused(AppError):
    """The request is not allowed from where it comes."""

    status = 403


class Stale(AppError):
    """The person acts on something that has changed since they saw it."""

    status = 409


class TooLarge(AppError):
    """More bytes than the server takes."""

    status = 413


class Busy(AppError):
    """Too much is asked at once; trying again later helps."""

    status = 429


class Unavailable(AppError):
    """A part that is needed (the model, the disk) can't be used now."""

    status = 503


class Uncounted(Unavailable):
    """The tokens of a prompt can't be counted: whoever runs the model does not tell."""


class Faulty(AppError):
    """The model failed at this answer."""

    @classmethod
    def by(cls, error: Exception) -> Self:
        """What the person is told of any error."""
        return cls(f"The model failed: {brief(error)}")


class TimedOut(AppError):
    """The model was silent for too long."""

    status = 504

    @classmethod
    def by(cls, error: TimeoutError) -> Self:
        """What the person is told of it."""
        return cls(f"The model was silent for too long. {error}".strip())


class Unauthorized(AppError):
    """A program that has not said, or not truly, who it is."""

    status = 401


class Misconfigured(AppError):
    """The start must stop: a setting or the data folder is not as it must be."""


def brief(error: BaseException) -> str:
    """The first line of what a library says; the rest is for its makers."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
