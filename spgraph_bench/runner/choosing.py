"""From what a user asks for to what is run: variants by globs, parameters, vertices, sizes for the host device.

The command line, configs of sweeps and workers of a cluster all come through here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from spgraph_bench.errors import UsageError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems import Problem, get_problem
from spgraph_bench.runner.prepare import filled_params
from spgraph_bench.variants import select, variants
from spgraph_bench.variants.base import Variant

__all__ = ["check_params", "chosen_variants", "smaller_on_host", "vertex_numbers"]


def chosen_variants(problem: str, names: Sequence[str] = (), formats: Sequence[str] = ()) -> list[Variant]:
    """The variants of `problem` whose name and format match one of the globs; no glob means all.

    Raises UsageError, with close matches, for a glob that matches none.
    """
    everything = variants(problem)
    for glob in names:
        if not select(problem, [glob]):
            close = difflib.get_close_matches(glob, [v.name for v in everything], n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "`spgraph list variants` names them"
            raise UsageError(f"no variant of {problem} matches {glob!r}", remedy=hint)
    for glob in formats:
        if not select(problem, (), [glob]):
            close = difflib.get_close_matches(glob, sorted({v.format for v in everything}), n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "`spgraph list formats` names them"
            raise UsageError(f"no variant of {problem} reads a format {glob!r}", remedy=hint)
    chosen = select(problem, names, formats)
    if not chosen:
        raise UsageError("no variant matches both --variant and --format", remedy="omit one of them")
    return chosen


def check_params(chosen: Sequence[Variant], params: Mapping[str, Any]) -> None:
    """Raises UsageError for a parameter that none of the variants has, or that has a bad value."""
    known = {name for v in chosen for name in (*v.tunables, *get_format(v.format).tunables)}
    for name in params:
        if name not in known:
            remedy = f"one of {', '.join(sorted(known))}" if known else "these variants have none"
            raise UsageError(f"no parameter is called {name!r}", remedy=remedy)
    for entry in chosen:
        filled_params(entry, params)
        form = get_format(entry.format)
        for name in form.tunables.keys() & params.keys():
            form.tunables[name].checked(f"{form.name}: {name}", params[name])


def vertex_numbers(problem: str, options: Mapping[str, Any], matrix: Matrix) -> dict[str, Any]:
    """`options` of `problem` with vertices, which were given as the input calls them, by their numbers.

    Raises UsageError for one that `matrix` does not have.
    """
    declared = get_problem(problem).options
    return {
        name: matrix.vertex_index(value) if declared[name].vertex and isinstance(value, str) else value
        for name, value in options.items()
    }


def smaller_on_host(problem: Problem, own: Mapping[str, Any]) -> dict[str, Any]:
    """What `problem` has as defaults where kernels are emulated, of the options that `own` does not set."""
    return {k: v for k, v in problem.host_defaults.items() if k not in own and not ("source" in own and k == "sources")}
