"""Which modules the variants compile: found by preparing each of them on a device that only takes notes.

So kernels that are compiled for a matrix (dia's diagonals), and what the extremes of tunables compile, are
found without a list of them. Run it to see them all. `of_run` finds what one run takes, and `compile_for` fills
the cache with that where there is nvcc and no GPU: for prepare_modules.py and reference.py.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spgraph_bench.errors import SpgraphError
from spgraph_bench.formats import Packed, get_format
from spgraph_bench.formats.common import offsets_for
from spgraph_bench.matrix import Matrix
from spgraph_bench.parameters import Parameter
from spgraph_bench.paths import cuda_dir
from spgraph_bench.problems import filled_options, get_problem, problems
from spgraph_bench.problems.sources import pattern_is_symmetric
from spgraph_bench.provenance import code_hash, commit, note_commit
from spgraph_bench.recipes import make
from spgraph_bench.reorder import reorder
from spgraph_bench.runner.assembly import generated_matrix
from spgraph_bench.runner.choosing import vertex_numbers
from spgraph_bench.runner.plan import Task
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.runner.refusing import unfit
from spgraph_bench.runner.rehearsal import Module, NotingDevice
from spgraph_bench.stats import row_stats
from spgraph_bench.toolchain.modules import build_all
from spgraph_bench.toolchain.nvcc import cubin_request
from spgraph_bench.validate import kernels
from spgraph_bench.variants import Variant, variants

__all__ = [
    "Module",
    "NotingDevice",
    "add_build_options",
    "compile_for",
    "extremes",
    "modules",
    "of_run",
    "of_validators",
    "prepared",
    "usual",
]

MATRICES = (
    "poisson2d:n=150",
    "rmat:scale=8",
    "rmat:scale=8,values=integers",
    "rmat:scale=8,values=ones",
    "banded:n=300,diagonals=9,values=ones",
    "blocks:n=20",
)
"""Enough for every choice that kernels make by themselves: dia compiles diagonals in from 100,000 entries on,
csr-segmented takes one launch up to 2^20, pattern formats need values that are all alike, bsr dense blocks."""
OPTIONS: Mapping[str, tuple[Mapping[str, Any], ...]] = {"spmm": ({"k": 1}, {"k": 32}, {"k": 128, "layout": "column"})}
ALSO: tuple[Mapping[str, Any], ...] = ({"order": "degree"}, {"parents": 1})
"""Settings beside the defaults that take kernels of files that the defaults do not: old vertex numbers, parents."""
LARGEST = 1 << 26
"""Bytes of a packed matrix: with more the recipe and the format do not go together (ell of an rmat graph)."""


def _ends(parameter: Parameter) -> list[Any]:
    """The values of a tunable that stand for all: words, and the least and largest number."""
    numbers = [c for c in parameter.choices or () if not isinstance(c, str)]
    words = [c for c in parameter.choices or () if isinstance(c, str)]
    ends = [min(numbers), max(numbers)] if numbers else list(parameter.between or ())
    return [value for value in (*words, *ends) if value != parameter.default]


def usual(variant: Variant) -> Iterator[Mapping[str, Any]]:
    """The defaults, and those of :data:`ALSO` that the variant or its format has."""
    own = {**get_format(variant.format).tunables, **variant.tunables}
    yield {}
    yield from (params for params in ALSO if params.keys() <= own.keys())


def extremes(variant: Variant) -> Iterator[dict[str, Any]]:
    """The defaults; each tunable at its ends; and all of them together at their least and at their largest."""
    own = {**get_format(variant.format).tunables, **variant.tunables}
    yield {}
    for name, parameter in own.items():
        yield from ({name: value} for value in _ends(parameter))
    ends = {name: _ends(parameter) for name, parameter in variant.tunables.items()}
    for end in (0, -1):
        yield {name: values[end] for name, values in ends.items() if values}


_made = functools.cache(make)
_cache: dict[Any, Any] = {}


def _once(key: Any, make_it: Callable[[], Any]) -> Any:
    """What `make_it` gives, made once: packed matrices and inputs do not depend on a variant's tunables."""
    if key not in _cache:
        _cache[key] = make_it()
    return _cache[key]


def _cases(variant: Variant) -> Iterator[tuple[Matrix, Mapping[str, Any]]]:
    for options in OPTIONS.get(variant.problem, ({},)):
        problem = get_problem(variant.problem, options)
        if variant.format == "none":
            yield generated_matrix(problem, options), options  # type: ignore[arg-type]
        else:
            yield from ((_made(recipe), options) for recipe in MATRICES)


def prepared(
    device: Any,
    variant: Variant,
    matrix: Matrix,
    dtype: str,
    offsets: str,
    options: Mapping[str, Any],
    params: Mapping[str, Any],
) -> Prepared | None:
    """`variant` prepared on `device` for `matrix`; None where its format takes too much of such a matrix. Raises what
    formats and variants raise."""
    problem, kind = get_problem(variant.problem, options), np.dtype(dtype)
    form, csr = get_format(variant.format).on(gpu := device.info().gpu), matrix.csr
    own = {k: v for k, v in params.items() if k in form.tunables}

    def pack() -> Packed | None:
        if variant.format != "none":
            stats = row_stats(csr)
            if form.predict_bytes(stats, 8, 8, **own) > LARGEST:
                return None
            if not form.packs_all and form.refuse(stats, None, 8, True, **own):
                return None
        return form.pack(csr, kind, np.dtype(offsets), **own)

    packed = _once((gpu.name, matrix.name, form.name, dtype, offsets, *own.items()), pack)
    if packed is None:
        return None
    key = (matrix.name, variant.problem, *options.items(), dtype)
    inputs = _once(key, lambda: problem.inputs(matrix, kind, 1))  # type: ignore[arg-type]
    return prepare(
        device,
        variant,
        packed,
        inputs,
        problem.output_arrays(matrix, kind),  # type: ignore[arg-type]
        {k: v for k, v in params.items() if k in variant.tunables},
        options=filled_options(problem, options),
    )


def modules(with_extremes: bool = False, only: Callable[[Variant], bool] = lambda v: True) -> NotingDevice:
    """What all variants with a kernel compile and launch, for every value and offset type."""
    device = NotingDevice()
    for problem in problems():
        for variant in variants(problem):
            if variant.source is None or not only(variant):
                continue
            for matrix, options in _cases(variant):
                # The large matrix is for what depends on its size; extremes do not.
                few = not with_extremes or matrix.csr.nnz > 100_000
                for params in usual(variant) if few else extremes(variant):
                    for dtype in variant.dtypes:
                        for offsets in ("int32", "int64"):
                            try:
                                prepared(device, variant, matrix, dtype, offsets, options, params)
                            except SpgraphError:
                                continue  # this format, type or choice is not for this matrix
    return device


def of_validators() -> set[Module]:
    """What validators of answers compile."""
    pairs = [pair for name, problem in problems().items() for dtype in problem.dtypes for pair in kernels(name, dtype)]
    return {Module(source, tuple(sorted(defines.items()))) for source, defines in pairs}


def of_run(
    variants: Sequence[Variant],
    matrix: Matrix | None,
    dtypes: Sequence[str],
    options: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    order: str = "none",
    offsets: str | None = None,
    device: NotingDevice | None = None,
) -> set[Module]:
    """What a run of `variants`, all of one problem, compiles for `matrix`, validators and clock included; like the run,
    it omits what a format refuses. `matrix`: None where the problem makes its own inputs. `device`: whose GPU sizes
    are chosen by, an H200 by default. `offsets`: None: those that the run takes."""
    device = device or NotingDevice()
    problem, gpu = get_problem(variants[0].problem, options or {}), device.info().gpu
    matrix = matrix or generated_matrix(problem, options or {})
    options = vertex_numbers(problem.name, options or {}, matrix)
    filled, given = filled_options(problem, options), dict(params or {})
    if problem.is_graph:
        matrix = matrix.with_symmetry(pattern_is_symmetric(matrix))
    csr = matrix.csr if order == "none" else reorder(matrix.csr, order).csr
    stats = row_stats(csr)
    offsets = offsets or offsets_for(csr.nnz).name
    task = Task(problem.name, {}, given, offsets=offsets)
    for dtype in dtypes:
        kind, form = np.dtype(dtype), ""
        inputs = problem.inputs(matrix, kind, 1, **{name: filled[name] for name in options})
        packed: Packed | None = None
        for variant in sorted(variants, key=lambda v: v.format):
            if variant.source is None or dtype not in variant.dtypes:
                continue
            if variant.format != form:
                form, packed = variant.format, None
            try:
                if variant.format != "none" and unfit(variant, dtype, csr, stats, task, device.free_bytes(), gpu):
                    continue
                if packed is None:
                    packer = get_format(form).on(gpu)
                    own = {k: v for k, v in given.items() if k in packer.tunables}
                    packed = packer.pack(csr, kind, np.dtype(offsets), **own)
                ours = {k: v for k, v in given.items() if k in variant.tunables}
                outputs = problem.output_arrays(matrix, kind)
                prepare(device, variant, packed, inputs, outputs, ours, options=filled)  # type: ignore[arg-type]
            except SpgraphError:
                continue  # the run will say so
    pairs = [pair for dtype in dtypes for pair in kernels(problem.name, dtype)]
    pairs += [(f"measure/{path.name}", {}) for path in (cuda_dir() / "measure").glob("*.cu")]
    return device.compiled | {Module(source, tuple(sorted(defines.items()))) for source, defines in pairs}


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """--arch and --jobs, as `compile_for` takes them."""
    parser.add_argument("--arch", type=_arch, default="sm_90", help="what to compile for (%(default)s)")
    parser.add_argument("--jobs", type=_jobs, help="compilers at a time")


def _arch(text: str) -> str:
    if not re.fullmatch(r"sm_[0-9]{2,3}[af]?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no architecture: sm_90, say")
    return text


def _jobs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of compilers: 1 at least")
    return int(text)


def compile_for(arch: str, wanted: Iterable[Module], jobs: int | None = None) -> int:
    """Fill the cache with these modules, and with the commit's name, which a machine with a copy of the cache may have
    no way to ask for. Prints how it goes. Returns the exit status."""
    requests = [cubin_request(module.source, dict(module.defines), arch) for module in sorted(wanted)]
    started = time.monotonic()
    results = build_all(
        requests, jobs, progress=lambda done, total, label: print(f"{done} of {total}: {label}", flush=True)
    )
    paths = [result for result in results if isinstance(result, Path)]
    for error in results:
        if isinstance(error, SpgraphError):
            print(f"error: {error}", file=sys.stderr)
    note = note_commit()
    size = sum(path.stat().st_size for path in paths) / 1e6
    print(f"{len(paths)} of {len(requests)} modules for {arch}, {size:.1f} MB, in {time.monotonic() - started:.0f} s")
    print(
        f"code {code_hash()[:12]}, commit {commit().name[:12] or 'unknown'}"
        f"{'' if note else ', not as committed: records will not name it'}"
    )
    return 0 if len(paths) == len(requests) else 1


def main() -> None:
    """Print the label of every module, then their number."""
    compiled = modules(with_extremes=True).compiled | of_validators()
    for module in sorted(compiled):
        print(module.label)
    print(f"{len(compiled)} modules")


if __name__ == "__main__":
    main()
