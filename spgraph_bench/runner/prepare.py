"""From a packed matrix to a launch: upload, make the problem's buffers, call the variant's host function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer, Device
from spgraph_bench.formats.base import Packed
from spgraph_bench.parameters import checked_values
from spgraph_bench.variants.base import Job, Launch, Variant

__all__ = [
    "Prepared",
    "compile_times",
    "defines_for",
    "described_modules",
    "filled_params",
    "prepare",
    "upload_packed",
]

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
    """Device memory it holds: arrays, inputs, outputs and what the variant took besides."""


def defines_for(dtype: npt.DTypeLike, offsets: npt.DTypeLike) -> dict[str, str]:
    """The -D of a kernel for these value and row-offset types."""
    return {"SPG_VALUE": _C_TYPES[np.dtype(dtype)], "SPG_OFFSET": _C_TYPES[np.dtype(offsets)]}


def filled_params(variant: Variant, params: Mapping[str, Any]) -> dict[str, Any]:
    """The variant's tunables with defaults; those of `params` that are not its own are left out.

    Raises UsageError for a value that a tunable cannot have.
    """
    return checked_values(variant.name, variant.tunables, params)


def upload_packed(device: Device, packed: Packed) -> dict[str, Buffer]:
    """The arrays of `packed` on `device`, by name; an array with two names is there once."""
    there: dict[int, Buffer] = {}
    for array in packed.arrays.values():
        if id(array) not in there:
            there[id(array)] = device.upload(array)
    return {name: there[id(array)] for name, array in packed.arrays.items()}


def compile_times(job: Job) -> dict[str, float]:
    """``compile_ms`` of the modules that serve any matrix, ``matrix_compile_ms`` of those made for this one;
    as long as they took when they were compiled. What there is none of is not in it."""
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


def prepare(
    device: Device,
    variant: Variant,
    packed: Packed,
    inputs: Mapping[str, npt.NDArray[Any]],
    outputs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    params: Mapping[str, Any] | None = None,
    *,
    offsets: npt.DTypeLike | None = None,
    arrays: Mapping[str, Buffer] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Prepared:
    """Prepare `variant` on `device`.

    Parameters
    ----------
    inputs : the problem's input arrays by name (spmv: x).
    outputs : shape and dtype of each output buffer (spmv: y), from ``Problem.output_arrays``.
    params : values of tunables; unknown names are ignored, since a run's parameters reach all variants.
    offsets : the row-offset type the kernels are compiled for; None: the one `packed` was made with.
    arrays : `packed` on the device already (shared between variants of one format); None uploads it.
    options : the problem's options, all of them (spmm: k, layout).

    Raises what compiling and launching raise, and UsageError for an impossible parameter.
    """
    filled = filled_params(variant, params or {})
    buffers: dict[str, Buffer] = {}
    if variant.where == "gpu":
        arrays = upload_packed(device, packed) if arrays is None else arrays
        buffers.update({name: device.upload(array) for name, array in inputs.items()})
        buffers.update({name: device.empty(shape, dtype) for name, (shape, dtype) in outputs.items()})
    job = Job(
        device=device,
        variant=variant,
        packed=packed,
        arrays=arrays or {},
        inputs=inputs,
        buffers=buffers,
        params=filled,
        options=options or {},
        defines=defines_for(packed.dtype, packed.offsets if offsets is None else offsets),
    )
    launch = variant.prepare(job)
    distinct = {id(b): b.nbytes for b in (*job.arrays.values(), *buffers.values())}
    held = sum(distinct.values()) + launch.extra_bytes
    return Prepared(job, launch, held)
