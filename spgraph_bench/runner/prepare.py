"""From a packed matrix to a launch: upload, make the problem's buffers, call the variant's host function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer, Device
from spgraph_bench.errors import UsageError
from spgraph_bench.formats.base import Packed, Tunable
from spgraph_bench.variants.base import Job, Launch, Variant

__all__ = ["Prepared", "chosen_value", "defines_for", "filled_params", "prepare", "upload_packed"]

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

    Text is brought to the type of the choices or the default. Raises UsageError for what is none of them.
    """
    return {
        n: chosen_value(variant.name, n, t, params.get(n, t.default)) for n, t in variant.tunables.items()
    }


def chosen_value(owner: str, name: str, tunable: Tunable, given: Any) -> Any:
    """`given` as a value of `tunable`, a parameter of the variant or format `owner`. Raises UsageError."""
    if tunable.choices is not None:
        for choice in tunable.choices:
            if given == choice or given == str(choice):
                return choice
        allowed = ", ".join(str(c) for c in tunable.choices)
        if tunable.between is not None:
            return _number(owner, name, int, tunable.between, f"{allowed} or ", given)
        raise UsageError(f"{owner}: {name}={given} is not possible", remedy=f"one of {allowed}")
    if not isinstance(tunable.default, int | float):
        if tunable.check is not None:
            tunable.check(given)
        return given
    between = tunable.between or (-(2**31), 2**31 - 1)
    return _number(owner, name, type(tunable.default), between, "", given)


def _number(
    owner: str, name: str, kind: type[int] | type[float], between: tuple[float, float], words: str, given: Any
) -> int | float:
    """`given` as a number of `kind`; `words`: what may stand in its place."""
    low, high = between
    value: int | float | None
    try:
        value = kind(given)
    except (ValueError, OverflowError):
        value = None
    if value is None or (isinstance(given, float) and value != given and not math.isnan(given)):
        what = "a whole number" if kind is int else "a number"
        raise UsageError(f"{owner}: {name}={given} is not {what}", remedy=f"take {words}{low} to {high}")
    if not low <= value <= high:  # nor is nan
        raise UsageError(f"{owner}: {name}={given} is not possible", remedy=f"take {words}{low} to {high}")
    return value


def upload_packed(device: Device, packed: Packed) -> dict[str, Buffer]:
    """The arrays of `packed` on `device`, by name; an array with two names is there once."""
    there: dict[int, Buffer] = {}
    for array in packed.arrays.values():
        if id(array) not in there:
            there[id(array)] = device.upload(array)
    return {name: there[id(array)] for name, array in packed.arrays.items()}


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
