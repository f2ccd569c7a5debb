"""Devices: `cuda` (PyCUDA) and `host` (the same kernels on the CPU). See :mod:`spgraph_bench.device.base`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spgraph_bench.errors import UsageError

if TYPE_CHECKING:
    from spgraph_bench.device.base import Device

__all__ = ["open_device", "parse_device"]


def parse_device(name: str) -> tuple[str, int]:
    """``"cuda:1"`` -> ``("cuda", 1)``; ``"host"`` -> ``("host", 0)``. Raises UsageError for anything else."""
    kind, _, index = name.partition(":")
    if kind == "host" and not index:
        return "host", 0
    if kind == "cuda" and (not index or index.isdecimal()):
        return "cuda", int(index or 0)
    raise UsageError(f"no device is called {name!r}", remedy="--device auto, cuda, cuda:N or host")


def open_device(name: str, **options: Any) -> Device:
    """Open ``"host"``, ``"cuda"`` or ``"cuda:N"`` in this process.

    `options` go to the device (host: ``seed``). Raises DeviceError when it is not there or cannot be used.
    """
    kind, index = parse_device(name)
    if kind == "host":
        from spgraph_bench.device.host import HostDevice

        host: Device = HostDevice(**options)
        return host
    from spgraph_bench.device.cuda import CudaDevice

    device: Device = CudaDevice(index, **options)
    return device
