"""What tells of accesses to the wrong place: words around outputs and x, and sums over what variants share."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer, Device

__all__ = ["GUARD_BYTES", "Guarded", "checksum", "input_buffer", "output_buffer"]

GUARD_BYTES = 4096
"""Before and after each output and x: a whole row of most dense ones, and a multiple of every alignment."""

_PATTERN = 0xA5
_NAN = 0xFF  # every byte: NaN in all types

SOURCE = "measure/checksum.cu"


class _Part:
    """Bytes inside another buffer. Not freed: the other buffer is."""

    def __init__(self, whole: Buffer, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._whole, self._start = whole, start
        self.shape, self.dtype = shape, dtype
        self.nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize

    @property
    def ptr(self) -> int:
        return self._whole.ptr + self._start

    def free(self) -> None:
        self._whole.free()


class Guarded(_Part):
    """An array with :data:`GUARD_BYTES` of `pattern` before and after it that nothing may write."""

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any], pattern: int = _PATTERN) -> None:
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        super().__init__(device.empty(size + 2 * GUARD_BYTES, np.uint8), GUARD_BYTES, shape, dtype)
        self._device, self._pattern = device, pattern
        byte = np.dtype(np.uint8)
        self._sides = {
            "before": _Part(self._whole, 0, (GUARD_BYTES,), byte),
            "after": _Part(self._whole, GUARD_BYTES + size, (GUARD_BYTES,), byte),
        }
        for side in self._sides.values():
            device.write(side, np.full(GUARD_BYTES, pattern, np.uint8))

    def overrun(self) -> str | None:
        """Which bytes around it were written ("bytes 0 to 3 after its end"), or None."""
        for name, side in self._sides.items():
            changed = np.flatnonzero(self._device.download(side) != self._pattern)
            if len(changed):
                first, last = int(changed[0]), int(changed[-1])
                if name == "before":
                    return f"bytes {GUARD_BYTES - last} to {GUARD_BYTES - first} before its first"
                return f"bytes {first + 1} to {last + 1} after its last"
        return None


def _sees_addresses(device: Device) -> bool:
    """Whether AddressSanitizer sees accesses outside of memory of exactly its size."""
    return "address" in device.info().extra.get("sanitizers", ())


def output_buffer(device: Device, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Buffer:
    """Device memory for an output: a :class:`Guarded`, but under AddressSanitizer."""
    return device.empty(shape, dtype) if _sees_addresses(device) else Guarded(device, shape, np.dtype(dtype))


def input_buffer(device: Device, array: npt.NDArray[Any]) -> Buffer:
    """Device memory for an input, and `array` in it. Of floating point it is a :class:`Guarded` between NaN: what is
    read outside shows in the result, even multiplied by 0."""
    if array.dtype.kind != "f" or _sees_addresses(device):
        return device.upload(array)
    buffer = Guarded(device, array.shape, array.dtype, _NAN)
    device.write(buffer, array)
    return buffer


def checksum(device: Device, buffer: Buffer) -> int:
    """A number that changes when any byte of `buffer` does: on a GPU from a kernel that reads it once."""
    if device.kind == "host":
        return zlib.crc32(np.ascontiguousarray(device.download(buffer)).view(np.uint8).data)
    total = device.upload(np.zeros(1, np.uint64))
    blocks = 8 * device.info().multiprocessors
    device.compile(SOURCE).kernel("spg_checksum")(blocks, 256, buffer, np.int64(buffer.nbytes), total)
    value = int(device.download(total)[0])
    total.free()
    return value
