"""From a packed matrix to a launch: upload, make the problem's buffers, call the variant's host function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer, Device
from spgraph_bench.errors import LaunchError
from spgraph_bench.formats.base import Packed
from spgraph_bench.parameters import checked_values
from spgraph_bench.problems import get_problem
from spgraph_bench.runner.guard import Guarded, input_buffer, output_buffer
from spgraph_bench.variants.base import Job, Launch, Variant

__all__ = [
    "Prepared",
    "compile_times",
    "defines_for",
    "described_modules",
    "filled_params",
    "locked",
    "prepare",
    "read_only",
    "upload_packed",
]

_MOST_CASES = 1000
"""Of a problem whose cases are not sources."""

_C_TYPES = {
    np.dtype(np.float16): "__half",
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int32): "int",
    np.dtype(np.int64): "long long",
}


@dataclass
class Prepared:
    """A variant ready to run on a device."""

    job: Job
    launch: Launch
    device_bytes: int
    """Device memory it holds: arrays, inputs, outputs and what the variant allocated."""
    own_inputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Of a CPU variant: its own copies of the inputs, of which the job has read-only views."""

    given: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """The inputs it was prepared with."""

    runs: int = 0
    """Times it was run."""
    fresh_sources: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    """Sources after the launch's cases that only verifying runs start from."""

    @property
    def fresh(self) -> int:
        """How many hidden sources there are."""
        return len(self.fresh_sources)

    def hide_sources(self, sources: npt.NDArray[Any]) -> None:
        """The last of the sources it was prepared with are these, and are not cases of a run."""
        self.fresh_sources = sources
        # A slow variant may do some of its cases only.
        cases = len(self.job.inputs.get("sources", ())) - len(sources)  # of a batch a row is a case
        if len(sources):
            self.launch.cases = min(self.launch.cases, cases)

    def write_input(self, name: str, array: npt.NDArray[Any]) -> None:
        """Give the input `name` other values, where the variant reads it."""
        if name in self.job.buffers:
            self.job.device.write(self.job.buffers[name], array)
        elif name in self.own_inputs:
            self.own_inputs[name][...] = array

    def changed_input(self, last: Mapping[str, npt.NDArray[Any]]) -> str | None:
        """The name of an input that is neither what `last` says nor, if that has none, what was given; or None."""
        for name, array in self.given.items():
            expected = np.ascontiguousarray(last.get(name, array))
            if name in self.job.buffers:
                there = self.job.device.download(self.job.buffers[name])
            elif name in self.own_inputs:
                there = self.own_inputs[name]
            else:
                continue
            if not np.array_equal(there.reshape(-1).view(np.uint8), expected.reshape(-1).view(np.uint8)):
                return name
        return None

    def overrun(self) -> str | None:
        """What was written outside an output, in words, or None."""
        for name, buffer in self.job.buffers.items():
            if isinstance(buffer, Guarded) and (where := buffer.overrun()):
                return f"it writes outside its outputs: {where} byte of {name}"
        return None


def defines_for(dtype: npt.DTypeLike, offsets: npt.DTypeLike) -> dict[str, str]:
    """The -D of a kernel for these value and row-offset types."""
    return {"SPG_VALUE": _C_TYPES[np.dtype(dtype)], "SPG_OFFSET": _C_TYPES[np.dtype(offsets)]}


def filled_params(variant: Variant, params: Mapping[str, Any]) -> dict[str, Any]:
    """The variant's tunables with defaults; those of `params` that are not its own are omitted.

    Raises UsageError for a value that a tunable cannot have.
    """
    return checked_values(variant.name, variant.tunables, params)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view of `array` that refuses to be written."""
    view = array.view()
    view.setflags(write=False)
    return view


def locked(packed: Packed) -> Packed:
    """`packed` with arrays that refuse to be written; an array with two names is still one array."""
    views = {id(array): read_only(array) for array in packed.arrays.values()}
    arrays = {name: views[id(array)] for name, array in packed.arrays.items()}
    return replace(packed, arrays=MappingProxyType(arrays))


def upload_packed(device: Device, packed: Packed) -> dict[str, Buffer]:
    """The arrays of `packed` on `device`, by name; an array with two names is there once."""
    there: dict[int, Buffer] = {}
    for array in packed.arrays.values():
        if id(array) not in there:
            there[id(array)] = device.upload(array)
    return {name: there[id(array)] for name, array in packed.arrays.items()}


def compile_times(job: Job) -> dict[str, float]:
    """``compile_ms`` of the modules that serve any matrix, ``matrix_compile_ms`` of those made for this one;
    as long as they took when they were compiled. Stages that did not happen are not in it."""
    spent: dict[str, float] = {}
    for module, for_matrix in job.modules.items():
        step = "matrix_compile_ms" if for_matrix else "compile_ms"
        spent[step] = spent.get(step, 0.0) + module.ms
    return spent


def described_modules(job: Job) -> tuple[dict[str, Any], ...]:
    """What a record keeps of the job's modules (``Record.modules``)."""
    return tuple(
        {**asdict(module), "options": list(module.options), "for_matrix": for_matrix}
        for module, for_matrix in job.modules.items()
    )


def _most_cases(variant: Variant, inputs: Mapping[str, npt.NDArray[Any]]) -> int:
    """How many cases a launch of `variant` may have."""
    if "sources" in inputs:
        return len(inputs["sources"])
    return _MOST_CASES if get_problem(variant.problem).has_cases else 1


def _must_be_a_launch(launch: Any, cases: int) -> None:
    """Raise LaunchError unless `launch` is one, with numbers that can be, and so many cases at most."""
    if not isinstance(launch, Launch):
        raise LaunchError(
            f"its host function gave a {type(launch).__name__}, not a Launch", remedy="return job.launch(...)"
        )
    for name in ("run", "reset", "output", "select", "facts"):
        if not callable(getattr(launch, name)):
            raise LaunchError(f"{name} of its Launch is a {type(getattr(launch, name)).__name__}, not a function")
    whole = {"operations": (0, None), "extra_bytes": (0, None), "cases": (1, cases)}
    for name, (least, most) in whole.items():
        value = getattr(launch, name)
        if not isinstance(value, (int, np.integer)) or value < least or (most is not None and value > most):
            bounds = f"{least} to {most}" if most is not None else f"{least} or more"
            raise LaunchError(f"{name} of its Launch is {value!r:.80}, not a whole number, {bounds}")
    ms = launch.preprocess_ms
    if not isinstance(ms, (int, float, np.integer, np.floating)) or not (math.isfinite(ms) and ms >= 0):
        raise LaunchError(f"preprocess_ms of its Launch is {ms!r:.80}, not a time in ms")
    launch.preprocess_ms = float(ms)


def prepare(
    device: Device,
    variant: Variant,
    packed: Packed,
    inputs: Mapping[str, npt.NDArray[Any]],
    outputs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    params: Mapping[str, Any] | None = None,
    *,
    arrays: Mapping[str, Buffer] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Prepared:
    """Prepare `variant` on `device`.

    Parameters
    ----------
    inputs : the problem's input arrays by name (spmv: x).
    outputs : shape and dtype of each output buffer (spmv: y), from ``Problem.output_arrays``.
    params : values of tunables; unknown names are ignored, since a run's parameters reach all variants.
    arrays : `packed` on the device already (shared between variants of one format); None uploads it.
    options : the problem's options, all of them (spmm: k, layout).

    Raises what compiling and launching raise, UsageError for an impossible parameter, and LaunchError where the host
    function gives no proper Launch.
    """
    filled = filled_params(variant, params or {})
    own = {name: np.array(array) for name, array in inputs.items()} if variant.where == "cpu" else {}
    buffers: dict[str, Buffer] = {}
    if variant.where == "gpu":
        arrays = upload_packed(device, packed) if arrays is None else arrays
        buffers.update({name: input_buffer(device, array) for name, array in inputs.items()})
        buffers.update({name: output_buffer(device, shape, dtype) for name, (shape, dtype) in outputs.items()})
    job = Job(
        device=device,
        variant=variant,
        packed=packed,
        arrays=arrays or {},
        inputs={name: read_only(array) for name, array in (own or inputs).items()},
        buffers=buffers,
        params=filled,
        options=MappingProxyType(dict(options or {})),
        defines=defines_for(packed.dtype, packed.offsets),
    )
    # What it does to its own copy of the job (another variant, other bytes) is not what is recorded.
    given = replace(job, arrays=MappingProxyType(job.arrays), buffers=MappingProxyType(buffers))
    launch = variant.prepare(given)
    _must_be_a_launch(launch, _most_cases(variant, inputs))
    job.child_words = given.child_words
    distinct = {id(b): b.nbytes for b in (*job.arrays.values(), *buffers.values())}
    held = sum(distinct.values()) + launch.extra_bytes
    return Prepared(job, launch, held, own, inputs)
