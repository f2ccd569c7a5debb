"""Every error a user can meet, typed, with its remedy and the exit status it leads to.

The command line prints ``str(error)`` on stderr and exits with ``error.exit_status``; anything that is
not a :class:`SpgraphError` is an internal error (status 4).
"""

from __future__ import annotations

__all__ = [
    "ISSUES",
    "CacheError",
    "CompileError",
    "DeviceError",
    "InputError",
    "LaunchError",
    "NothingRanError",
    "SkipError",
    "SpgraphError",
    "TooLargeError",
    "UsageError",
]


ISSUES = "https://github.com/spgraph/spgraph/issues"
"""Where internal errors are reported."""
_PLACE = 120
"""Characters of a place in a message."""


class SpgraphError(Exception):
    """Base of all expected errors.

    Parameters
    ----------
    cause : what is wrong, one sentence without a final full stop.
    remedy : what the user can do about it, or None.
    place : ``file:line`` (or just ``file``) where it was found, or None.
    """

    exit_status = 4

    def __init__(self, cause: str, *, remedy: str | None = None, place: str | None = None) -> None:
        super().__init__(cause, remedy, place)
        self.cause = cause
        self.remedy = remedy
        self.place = place

    def __str__(self) -> str:
        """A line of place and cause, a line of the remedy; of a long place its end, with name and line."""
        place = (self.place or "").replace("\n", "\\n")
        if len(place) > _PLACE:
            place = f"...{place[-_PLACE:]}"
        cause = " ".join(self.cause.splitlines())
        head = f"{place}: {cause}" if place else cause
        return f"{head}\n  remedy: {' '.join(self.remedy.splitlines())}" if self.remedy else head

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross the pipe from the worker process; keyword-only arguments do not pickle by themselves.
        return (_rebuild, (type(self), self.cause, self.remedy, self.place))


def _rebuild(kind: type[SpgraphError], cause: str, remedy: str | None, place: str | None) -> SpgraphError:
    return kind(cause, remedy=remedy, place=place)


class UsageError(SpgraphError):
    """A command line that cannot mean anything (exit status 2)."""

    exit_status = 2


class InputError(SpgraphError):
    """A file or recipe that cannot be read (exit status 2)."""

    exit_status = 2


class TooLargeError(InputError):
    """An input that takes more memory than there is, known before anything is allocated (exit status 2)."""


class CacheError(SpgraphError):
    """A cache folder or entry that another user owns or may change: nothing is taken from it (status 2)."""

    exit_status = 2


class NothingRanError(SpgraphError):
    """Every variant was skipped or filtered away (exit status 1)."""

    exit_status = 1


class DeviceError(SpgraphError):
    """No such device, or a device that cannot be used (exit status 3)."""

    exit_status = 3


class CompileError(SpgraphError):
    """A kernel that does not compile: the variant is recorded as failed (exit status 1)."""

    exit_status = 1


class SkipError(SpgraphError):
    """Raised while preparing: the variant cannot run here or on this matrix; it is recorded as skipped."""

    exit_status = 0


class LaunchError(SpgraphError):
    """A kernel launch that was refused or did not end well: the variant is recorded as failed."""

    exit_status = 1
