"""Variants: one decorated host function each, beside its siblings, and one kernel file.

The registry here is the only list of variants: tables, tests, configs and docs follow from it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer, Compiled, Device, Kernel
from spgraph_bench.formats.base import Packed, get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.paths import cuda_dir
from spgraph_bench.problems.base import problems
from spgraph_bench.registry import Registry
from spgraph_bench.stats import MatrixStats
from spgraph_bench.timer import perf_counter
from spgraph_bench.variants.plugins import load_files, load_installed

__all__ = [
    "CHILD_WORDS",
    "Job",
    "Launch",
    "LevelTime",
    "Limits",
    "Sizes",
    "Variant",
    "get_variant",
    "library_versions",
    "loader",
    "loaders",
    "register",
    "select",
    "variant",
    "variants",
    "version_of",
]


@dataclass(frozen=True)
class LevelTime:
    """One level of a traversal as it was done."""

    how: str
    """"push", "pull", "edge" or "one block"."""
    ms: float | None
    """None where no clock is meaningful (host device)."""


@dataclass(frozen=True)
class Limits:
    """What a variant that launches or allocates on the device needs at most, known before it runs."""

    pending_launches: int = 0
    """Child grids that may wait at the same time, over all of a run."""
    heap_bytes: int = 0
    """Bytes of ``malloc`` in kernels, what the allocator adds included."""


@dataclass(frozen=True)
class Sizes:
    """What a variant's :class:`Limits` may be computed from, on the host."""

    csr: CSR
    inputs: Mapping[str, npt.NDArray[Any]]
    oracle: Mapping[str, npt.NDArray[Any]]
    params: Mapping[str, Any]
    """The variant's tunables, defaults filled in."""
    options: Mapping[str, Any]
    """The problem's options, defaults filled in."""


CHILD_WORDS = ("launched", "refused", "failed", "error", "allocations", "allocations_failed")
"""Words of ``Job.children()``, as cuda/common/children.cuh lays them out: grids that were launched from the
device, launches refused because the pool was full, launches that failed otherwise, the error of one of those,
allocations on the device, those that failed."""


@dataclass
class Launch:
    """A prepared computation.

    `run` only enqueues on the job's stream (on a CPU variant it computes); it holds the minimum, everything
    that can be done once is done while preparing. What belongs to the algorithm (zeroing y for atomics) is in
    `run`. `reset` restores inputs and poisons outputs, untimed. `output` fetches the result.

    Every `run` computes from the inputs as they are then (the runner changes x and the source between
    runs), whatever its outputs hold (poison, or the results of the run before), is done when `run` returns
    (CPU) or when the job's stream is (GPU), and writes nothing but its outputs. The runner looks: see
    docs/measuring.md.
    """

    run: Callable[[], None]
    reset: Callable[[], None]
    output: Callable[[], Any]
    """An array; of a problem without a matrix perhaps several by name, as its ``check`` takes them."""
    operations: int = 1
    """Launches and memsets one `run` enqueues (the gate holds back at most 256)."""
    gated: bool = True
    """False when `run` needs the host in between, so that it cannot be queued behind the gate."""
    preprocess_ms: float = 0.0
    """Time of device- or library-side preparation that a user would pay once per matrix."""
    extra_bytes: int = 0
    """Device memory in addition to the packed arrays, x and y."""
    keep: Any = None
    """Objects that must live as long as the launch (descriptors, workspaces)."""
    cases: int = 1
    """How many cases (sources) it can run."""
    select: Callable[[int], None] = lambda case: None
    """Choose the case that the next runs solve, untimed, before `reset`; 0 is chosen at first."""
    trace: Callable[[], list[LevelTime]] | None = None
    """Run once, watching each level (untimed otherwise: watching costs); None where there are no levels."""
    every_level: str = ""
    """How each level is done ("push"), where levels cannot be watched: it tells what was inspected."""
    facts: Callable[[], Mapping[str, Any]] = dict
    """Facts of the last run in addition to its output (iterations, ...), for the problem's summary. A run of
    ``iterations`` does the problem's work so many times."""
    steps: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    """Run once, watching each step, where steps are not levels: what the trace keeps of each.
    """
    parts: Mapping[str, Callable[[], None]] = field(default_factory=lambda: MappingProxyType({}))
    """Parts of `run` that a record times apart as well: "parents"."""


@dataclass
class Job:
    """What a variant's host function gets: a device, the packed matrix on it, the problem's vectors."""

    device: Device
    variant: Variant
    packed: Packed
    arrays: Mapping[str, Buffer]
    """`packed.arrays` on the device (empty for CPU variants)."""
    inputs: Mapping[str, npt.NDArray[Any]]
    """The problem's inputs on the host (spmv: x), read-only. CPU variants read them in every run: their
    values change between runs, their addresses do not."""
    buffers: Mapping[str, Buffer]
    """Inputs and outputs on the device (spmv: x, y), outputs poisoned by reset()."""
    params: dict[str, Any]
    """Tunables of this variant, defaults filled in. Copies of a job share them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The problem's options, defaults filled in (spmm: k, layout)."""
    defines: Mapping[str, str] = field(default_factory=dict)
    """-D for the kernel: SPG_VALUE and SPG_OFFSET."""
    child_words: Buffer | None = None
    """The words of :meth:`children`, once a variant has asked for them."""
    modules: dict[Compiled, bool] = field(default_factory=dict)
    """What was compiled, or taken from the cache, for this job; True: for its matrix alone. Copies of a job
    share them."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Value type of the packed matrix."""
        return self.packed.dtype

    def decide(self, name: str, value: Any) -> Any:
        """The tunable `name`, or `value` where it is "auto"; the record then shows that."""
        if self.params[name] == "auto":
            self.params[name] = value
        return self.params[name]

    def children(self) -> Buffer:
        """uint64 ``[6]`` (:data:`CHILD_WORDS`), where kernels count what they launch and allocate.

        The argument of every kernel that does. The runner reads it: a launch that was refused is a failure.
        """
        if self.child_words is None:
            self.child_words = self.device.upload(np.zeros(len(CHILD_WORDS), np.uint64))
        return self.child_words

    def kernel(self, name: str, source: str | None = None, /, **defines: int | str) -> Kernel:
        """The kernel `name` of the variant's source (or `source`), compiled for this job's types.

        The variant's own source gets every tunable that has a macro, as it is decided by then; `defines`, which come
        first, are all that another source gets.
        """
        return self._kernel(name, source, defines, for_matrix=False)

    def kernel_for_matrix(self, name: str, /, **defines: int | str) -> Kernel:
        """As :meth:`kernel`, where the `defines` hold something of this matrix (its diagonals, its width), so
        that another one needs a module of its own.

        The time of that compile counts as setup, also when the module comes from the cache. Defines that
        choose among a few shapes, which matrices share, do not make it so.
        """
        if not self.variant.for_matrix:
            raise ValueError(f"{self.variant.name} is not declared as compiled for one matrix")
        return self._kernel(name, None, defines, for_matrix=True)

    def _kernel(self, name: str, source: str | None, defines: Mapping[str, int | str], *, for_matrix: bool) -> Kernel:
        path = source or self.variant.source
        assert path is not None, f"{self.variant.name} has no source"
        own = self._tuned(defines) if source is None else {}
        given = {macro: str(value) for macro, value in defines.items()}
        module = self.device.compile(path, {**self.defines, **own, **given})
        self.modules[module.compiled] = for_matrix
        return module.kernel(name)

    def _tuned(self, given: Collection[str]) -> dict[str, str]:
        """-D for every tunable that has a macro not in `given`, at its default or not: kernels have no defaults."""
        tunables = self.variant.tunables.items()
        values = {t.macro: self.params[name] for name, t in tunables if t.macro and t.macro not in given}
        if undecided := [macro for macro, value in values.items() if value == "auto"]:
            raise ValueError(f"{self.variant.name}: {', '.join(undecided)} must be decided before kernels are compiled")
        return {macro: str(value) for macro, value in values.items()}

    def timed_ms(self, prepare: Callable[[], None]) -> float:
        """Run `prepare` (on the device, once per matrix) and give its time in ms, until the device is done.

        It is run twice and timed the second time: loading its module is not part of preprocessing. 0 where
        kernels are emulated, whose times say nothing.
        """
        prepare()
        self.device.synchronize()
        if self.device.kind == "host":
            return 0.0
        start = perf_counter()
        prepare()
        self.device.synchronize()
        return (perf_counter() - start) * 1e3

    def launch(self, run: Callable[[], None], *, output: str = "y", **details: Any) -> Launch:
        """A Launch whose reset poisons `output` and whose output() downloads it."""
        target = self.buffers[output]
        return Launch(
            run=run,
            reset=lambda: self.device.fill(target, 0xFF),
            output=lambda: self.device.download(target),
            **details,
        )


@dataclass(frozen=True)
class Variant:
    """One way to solve a problem. See :func:`variant` for the fields."""

    problem: str
    name: str
    format: str
    source: str | None
    about: str
    prepare: Callable[[Job], Launch]
    where: Literal["gpu", "cpu"] = "gpu"
    library: str | None = None
    tunables: Mapping[str, Parameter] = field(default_factory=lambda: MappingProxyType({}))
    dtypes: tuple[str, ...] = ("float32", "float64")
    missing: Callable[[Device], str | None] | None = None
    limits: Callable[[Sizes], Limits] | None = None
    order: int = 0
    for_matrix: bool = False
    refuse: Callable[[MatrixStats], str | None] | None = None

    @property
    def kernel(self) -> bool:
        """Whether it is spgraph's own (a .cu file), not a library's."""
        return self.library is None

    @property
    def from_elsewhere(self) -> bool:
        """Whether a plug-in or another package brought it."""
        return self.prepare.__module__.partition(".")[0] != __name__.partition(".")[0]


_VERSIONS: dict[str, Callable[[], str]] = {}

VersionFunction = TypeVar("VersionFunction", bound=Callable[[], str])


def version_of(library: str) -> Callable[[VersionFunction], VersionFunction]:
    """Register the decorated function, which returns the version of `library`, and return it unchanged.

    The version is the one that the library itself reports, if it does. The function may raise if the library is absent.
    """

    def enter(function: VersionFunction) -> VersionFunction:
        _VERSIONS[library] = function
        return function

    return enter


def library_versions(chosen: Iterable[str]) -> dict[str, str]:
    """Versions of these libraries, without those that are absent or report none."""
    variants()  # whose modules register is known
    versions = {}
    for name in sorted(set(chosen) & _VERSIONS.keys()):
        with contextlib.suppress(Exception):  # whatever a library raises that is not there
            if version := _VERSIONS[name]():
                versions[name] = version
    return versions


def _load_others() -> None:
    load_installed(_VARIANTS.undone_on_error)
    with _VARIANTS.undone_on_error():
        load_files()


_VARIANTS: Registry[tuple[str, str], Variant] = Registry("variant", "spgraph_bench.variants", _load_others)


_NAME = re.compile(r"[\w.+-]{1,80}")


def _must_be_possible(entry: Variant) -> None:
    """Raise ValueError where a variant from elsewhere names what there is not, or cannot be shown."""
    called = f"variant {entry.name!r:.80}"
    if not isinstance(entry.name, str) or not _NAME.fullmatch(entry.name):
        raise ValueError(f"{called}: a name has up to 80 letters, digits and . + - _")
    for what, text in (("library", entry.library or ""), ("about", entry.about)):
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"{called}: {what} is {text!r:.80}, not a line of text")
    if entry.problem not in problems():
        raise ValueError(f"{called}: no problem is called {entry.problem!r:.80}, only {', '.join(problems())}")
    try:
        get_format(entry.format)
    except (KeyError, TypeError):
        raise ValueError(f"{called}: no format is called {entry.format!r:.80}: spgraph list formats") from None
    if entry.where not in ("gpu", "cpu"):
        raise ValueError(f"{called}: where is {entry.where!r:.80}, not gpu or cpu")
    for name, tunable in entry.tunables.items():
        if not isinstance(tunable, Parameter):
            raise ValueError(f"{called}: its tunable {name!r} is {tunable!r:.80}, not a Parameter")


def register(entry: Variant) -> Variant:
    """Enter `entry`. A duplicate name or a missing source is an error at import."""
    if entry.source is not None and not (cuda_dir() / entry.source).is_file():
        raise FileNotFoundError(f"variant {entry.name!r}: no kernel file {cuda_dir() / entry.source}")
    if entry.from_elsewhere:
        _must_be_possible(entry)
    if entry.source is None and entry.library is None:
        raise ValueError(f"variant {entry.name!r} has neither a kernel file nor a library")
    return _VARIANTS.enter((entry.problem, entry.name), entry)


def variant(
    problem: str,
    name: str,
    *,
    format: str,
    about: str,
    source: str | None = None,
    where: Literal["gpu", "cpu"] = "gpu",
    library: str | None = None,
    tunables: Mapping[str, Parameter] | None = None,
    dtypes: Iterable[str] = ("float32", "float64"),
    missing: Callable[[Device], str | None] | None = None,
    limits: Callable[[Sizes], Limits] | None = None,
    for_matrix: bool = False,
    refuse: Callable[[MatrixStats], str | None] | None = None,
) -> Callable[[Callable[[Job], Launch]], Callable[[Job], Launch]]:
    """Register the decorated host function as a variant and return it unchanged (as nvbench's decorators do).

    Parameters
    ----------
    problem, name : "spmv", "csr-vector"; named for what it does, never by number.
    format : the format it reads; its arrays are on the device when the function is called.
    source : kernel file below ``cuda/`` (or an absolute path); None for a library's routine.
    about : one line about it; the function's docstring, unless it has its own.
    where : "cpu" for baselines that run on the host: timed with the host's clock.
    library : "cuSPARSE", "scipy", ...: the reference library that it calls, shown in tables.
    tunables : parameters a user may set with ``--param``.
    dtypes : value types it can do.
    missing : looks at the device and says why the variant cannot run there (an absent library), or None.
    limits : gives bounds on launches that wait and bytes allocated on the device, before anything runs; for
        every variant that launches or allocates there.
    for_matrix : its kernel is compiled for each matrix (:meth:`Job.kernel_for_matrix`); tables say so.
    refuse : why a matrix is not for it, beside what its format refuses, or None: asked before anything is compiled.
    """

    def enter(prepare: Callable[[Job], Launch]) -> Callable[[Job], Launch]:
        prepare.__doc__ = prepare.__doc__ or f"Prepare `{name}` of {problem}: {about}."
        register(
            Variant(
                problem,
                name,
                format,
                source,
                about,
                prepare,
                where,
                library,
                MappingProxyType(dict(tunables or {})),
                tuple(dtypes),
                missing,
                limits,
                len(_VARIANTS),
                for_matrix,
                refuse,
            )
        )
        return prepare

    return enter


_LOADERS: dict[str, Callable[[], object]] = {}

Loader = TypeVar("Loader", bound=Callable[[], object])


def loader(library: str) -> Callable[[Loader], Loader]:
    """Register the decorated function as what loads `library`, which takes long, and return it unchanged.

    It needs no device, and may be called early, in a thread of its own; its failure is then ignored, since
    ``missing`` will meet it too.
    """

    def enter(load: Loader) -> Loader:
        _LOADERS[library] = load
        return load

    return enter


def loaders(chosen: Iterable[Variant]) -> tuple[Callable[[], object], ...]:
    """What loads the libraries of these variants."""
    return tuple(_LOADERS[name] for name in sorted({v.library or "" for v in chosen}) if name in _LOADERS)


def _place(entry: Variant) -> int:
    """Where the module of `entry` is in its package's reading order; behind all where it is not in it, as
    what plug-ins bring."""
    package, _, module = entry.prepare.__module__.rpartition(".")
    order: Sequence[str] = getattr(sys.modules.get(package), "READING_ORDER", ())
    return order.index(module) if module in order else sys.maxsize


def variants(problem: str | None = None) -> list[Variant]:
    """All variants (of one problem), from simple to best as their package gives it (``READING_ORDER``), then in
    the order of registration, reference libraries last."""
    chosen = [v for v in _VARIANTS.entries().values() if problem is None or v.problem == problem]
    return sorted(chosen, key=lambda v: (v.problem, v.library is not None, v.where == "cpu", _place(v), v.order))


def get_variant(problem: str, name: str) -> Variant:
    """The variant `name` of `problem`; KeyError if there is none."""
    return _VARIANTS.get((problem, name))


def select(problem: str, names: Iterable[str] = (), formats: Iterable[str] = ()) -> list[Variant]:
    """Variants of `problem` whose name matches one of the globs `names` and whose format one of `formats`.

    No globs match everything.
    """
    names, formats = list(names), list(formats)
    return [
        v
        for v in variants(problem)
        if (not names or any(fnmatch.fnmatchcase(v.name, g) for g in names))
        and (not formats or any(fnmatch.fnmatchcase(v.format, g) for g in formats))
    ]
