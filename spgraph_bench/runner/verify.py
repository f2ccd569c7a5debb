"""How outputs are verified after the first check: with inputs that a variant has not seen.

A result that was computed once, or is the one of the run before, is right as long as nothing changes. So x is
scaled by a power of two or its negative before a verifying run, which moves every nonzero result and needs no
second oracle, or some of its signs are changed, and a traversal starts from a source that no run started from before.
Once the run is over the inputs are others again, before output() is asked: it can only hand over what was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR
from spgraph_bench.timer import perf_counter
from spgraph_bench.variants.base import Launch

__all__ = [
    "FACTORS",
    "Memory",
    "WrongOutputError",
    "error_text",
    "finished_output",
    "fresh_cases",
    "fresh_sources",
    "listed",
    "output_of",
    "same_output",
]

FACTORS = (1.0, 0.5, -0.5)
"""What x is multiplied by in verifying runs: powers of two and their negatives do not round. 1: x is turned instead
(``Problem.turned``), into what is no multiple of it."""

_UNSEEN_TIMES = 5.0
_UNSEEN_MS = 0.05
_WAIT_MS = 0.5
_TRIES = 5
_HANDING_OVER = 20.0
_HANDING_OVER_MS = 1.0


_LONGEST_TEXT = 500
_LISTED = 3


class WrongOutputError(Exception):
    """An output differs, or did not come about as it should; the text says how."""


def error_text(error: BaseException) -> str:
    """Class and text of an error that a host function raised, however long the text is, and where it has none."""
    try:
        text = str(error)
    except Exception:
        text = "its text cannot be shown"
    text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def listed(names: Sequence[str]) -> str:
    """ "a, b, c and 4 more"."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def output_of(launch: Launch, *, named: bool = False) -> Any:
    """What the launch's ``output()`` gives: an array; `named`: it may be several by name. Raises WrongOutputError for
    anything else.

    An array of a class of its own becomes a plain one: that could answer to comparisons as it likes.
    """
    output = launch.output()
    if named and isinstance(output, Mapping):
        return {name: _plain(array) for name, array in output.items()}
    return _plain(output)


def _plain(array: Any) -> Any:
    if not isinstance(array, (np.ndarray, np.generic, int, float)):
        raise WrongOutputError(f"output() gave a {type(array).__name__}, not an array")
    return np.asarray(array) if isinstance(array, np.ndarray) else array


def fresh_sources(csr: CSR, sources: npt.NDArray[np.int32], count: int = len(FACTORS)) -> npt.NDArray[Any]:
    """Up to `count` vertices that are not among `sources`, neighbours of these where possible: a search from
    there takes about as long. Of the type of `sources`."""
    excluded, fresh = set(sources.tolist()), []
    for source in (*sources.tolist(), *range(min(csr.rows, 1024))):
        row = csr.col_idx[csr.row_ptr[source] : csr.row_ptr[source + 1]][:1024]
        new = next((int(v) for v in (*row.tolist(), source) if int(v) not in excluded), None)
        if new is not None:
            excluded.add(new)
            fresh.append(new)
        if len(fresh) == count:
            break
    return np.array(fresh, sources.dtype)


def fresh_cases(csr: CSR, sources: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    """As many cases as there are :data:`FACTORS`, or fewer, whose sources are not among `sources`, as these are given:
    a vertex each, or a row each, where a case is a batch. A small graph may have fewer other vertices than a batch has
    sources; some of a row are then those of the first one, in another order."""
    if sources.ndim == 1:
        return fresh_sources(csr, sources)
    size = int(np.count_nonzero(sources[0] >= 0))  # -1 stays behind all
    others = fresh_sources(csr, sources[sources >= 0], len(FACTORS) * size)
    rows = []
    for i in range(len(FACTORS)):
        own = others[i * size : (i + 1) * size]
        if not len(own):
            own = others[: min(i + 1, size - 1)]
        if not len(own):
            break
        row = sources[0].copy()
        row[:size] = np.roll(row[:size], i + 1)
        row[: len(own)] = own
        rows.append(row)
    return np.array(rows, sources.dtype).reshape(-1, sources.shape[1])


def same_output(one: Any, other: Any) -> bool:
    """Whether two outputs are the same, bit for bit; of floating-point ones, which another order of summation
    may move, most elements are enough. Of empty ones nothing is."""
    if isinstance(one, Mapping):
        if not isinstance(other, Mapping):
            return False
        names = [name for name in one.keys() & other.keys() if np.size(one[name])]
        return bool(names) and all(same_output(one[name], other[name]) for name in names)
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    if one.shape != other.shape or one.dtype != other.dtype or not one.size:
        return False
    bits = f"u{one.itemsize}" if one.dtype.kind in "fiu" else f"V{one.itemsize}"
    same = int(np.count_nonzero(one.reshape(-1).view(bits) == other.reshape(-1).view(bits)))
    return same > one.size // 2 if one.dtype.kind == "f" else same == int(one.size)


def finished_output(
    launch: Launch,
    run_ms: float,
    rerun: Callable[[], object] | None = None,
    *,
    converts: bool = True,
    named: bool = False,
) -> Any:
    """The output of a CPU variant right after its run. Raises WrongOutputError where it was still being made.

    Handing over takes as long a second time; an output that waits for the work is slow the first time only, and one
    that does the work is slow each time. Where it looks so, it is tried again, since a busy machine can delay anything
    once.

    Parameters
    ----------
    rerun : makes the run again; by default reset and run.
    converts : output() may make something else of the result, untimed (levels of a tree), however long that takes.
    named : as :func:`output_of` has it.
    """

    def repeat() -> None:
        launch.reset()
        launch.run()

    for attempt in range(_TRIES + 1):
        if attempt:
            begin = perf_counter()
            (rerun or repeat)()
            run_ms = (perf_counter() - begin) * 1e3
        output, first_ms, second_ms = _fetched(launch, named)
        waited = first_ms - 4 * second_ms > max(_WAIT_MS, run_ms)
        worked = not converts and second_ms > _HANDING_OVER_MS + _HANDING_OVER * run_ms
        if not (waited or worked):
            return output
    raise WrongOutputError(
        f"run() returned after {run_ms:.3g} ms, and output() then took {first_ms:.3g} ms, "
        f"{second_ms:.3g} ms a second time: the work was not done when run() returned"
    )


def _fetched(launch: Launch, named: bool) -> tuple[Any, float, float]:
    """A copy of the output, and how many ms output() took, the first time and a second one."""
    begin = perf_counter()
    output = output_of(launch, named=named)
    output = {n: np.array(a) for n, a in output.items()} if isinstance(output, Mapping) else np.array(output)
    middle = perf_counter()
    launch.output()
    return output, (middle - begin) * 1e3, (perf_counter() - middle) * 1e3


class Memory:
    """The longest time of a cell so far, by cache state, and what runs on new inputs took."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._unseen: list[tuple[float, float]] = []

    def seen(self, cache: str, ms: float) -> None:
        """Note a timed run, `ms` long."""
        self._longest[cache] = max(ms, self._longest.get(cache, 0.0))

    def unseen(self, cache: str, ms: float) -> None:
        """A run on inputs that no run had before. Raises WrongOutputError from the second on, if all of them
        took far longer than any timed run: those gave back what they had kept."""
        if not (longest := self._longest.get(cache)):
            return
        self._unseen.append((ms, longest))
        if len(self._unseen) > 1 and all(new > _UNSEEN_TIMES * old + _UNSEEN_MS for new, old in self._unseen):
            raise WrongOutputError(
                f"runs on new inputs took {min(new for new, _ in self._unseen):.3g} ms or more, "
                f"no timed run more than {longest:.3g} ms: it returns stored results instead of computing them"
            )
