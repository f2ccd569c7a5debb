"""From a packed matrix to a prepared launch on a device: what the runner and the kernels' tests share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Device
from spgraph_bench.errors import UsageError
from spgraph_bench.formats.base import Packed, Tunable
from spgraph_bench.matrix import CSR
from spgraph_bench.problems.base import Problem
from spgraph_bench.variants.base import Job, Launch, Variant

__all__ = ["Prepared", "defines_for", "fill_params", "prepare"]

_C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}


@dataclass(frozen=True)
class Prepared:
    """A launch and what it stands on; keep it as long as the launch is used."""

    job: Job
    launch: Launch
    device_bytes: int
    """Device memory of the packed arrays, the inputs, the outputs and the variant's own workspace."""


def defines_for(packed: Packed) -> dict[str, str]:
    """The -D of a kernel for the types of `packed`: SPG_VALUE and SPG_OFFSET."""
    return {"SPG_VALUE": _C_TYPES[packed.dtype.name], "SPG_OFFSET": _C_TYPES[packed.offsets.name]}


def fill_params(variant: Variant, params: Mapping[str, Any]) -> dict[str, Any]:
    """The tunables of `variant` with `params` over their defaults; names it does not have are left out.

    Values come as text from the command line and are brought to the type of the default. Raises UsageError
    for a value that is not one of the choices.
    """
    return {
        name: _value(variant, name, t, params.get(name, t.default)) for name, t in variant.tunables.items()
    }


def _value(variant: Variant, name: str, tunable: Tunable, given: Any) -> Any:
    value = given
    if isinstance(given, str) and isinstance(tunable.default, int | float):
        try:
            value = type(tunable.default)(given)
        except ValueError:
            raise UsageError(
                f"{variant.name}: {name} cannot be {given!r}", remedy=f"{name} is {tunable.about}"
            ) from None
    if tunable.choices is not None and value not in tunable.choices:
        raise UsageError(
            f"{variant.name}: {name} cannot be {given!r}",
            remedy=f"one of {', '.join(str(c) for c in tunable.choices)}",
        )
    return value


def prepare(
    device: Device,
    variant: Variant,
    matrix_csr: CSR,
    packed: Packed,
    problem: Problem,
    inputs: Mapping[str, npt.NDArray[Any]],
    output_arrays: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    params: Mapping[str, Any],
) -> Prepared:
    """Upload `packed` and `inputs`, allocate the outputs, compile, and let `variant` prepare its launch.

    `output_arrays` gives shape and dtype by name (see :meth:`Problem.output_arrays`). A CPU variant gets no
    device arrays. The outputs are not poisoned yet: call ``launch.reset()`` first. Raises UsageError for bad
    parameters, CompileError, LaunchError, DeviceError (out of memory). ValueError if the parts do not belong
    together, which would otherwise look like a wrong kernel.
    """
    if variant.problem != problem.name or variant.format != packed.format:
        raise ValueError(f"{variant.name} does {variant.problem} on {variant.format}, not on {packed.format}")
    if (packed.rows, packed.cols, packed.nnz) != (*matrix_csr.shape, matrix_csr.nnz):
        raise ValueError(f"{variant.name}: the packed arrays are those of another matrix")
    filled = fill_params(variant, params)
    if variant.where == "cpu":
        job = Job(device, variant, packed, {}, inputs, {}, filled)
        return Prepared(job, variant.prepare(job), 0)
    arrays = {name: device.upload(array) for name, array in packed.arrays.items()}
    buffers = {name: device.upload(array) for name, array in inputs.items()}
    buffers |= {name: device.empty(shape, dtype) for name, (shape, dtype) in output_arrays.items()}
    job = Job(device, variant, packed, arrays, inputs, buffers, filled, defines_for(packed))
    launch = variant.prepare(job)
    taken = sum(buffer.nbytes for buffer in (*arrays.values(), *buffers.values()))
    return Prepared(job, launch, taken + launch.extra_bytes)
