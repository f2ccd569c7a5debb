"""Prepare: the packed matrix on the host and on the device, shared by all variants of a format."""

from __future__ import annotations

import gc
import zlib

import numpy as np

from spgraph_bench.device.base import Buffer
from spgraph_bench.formats import Packed, get_format
from spgraph_bench.runner.guard import checksum
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.prepare import locked, upload_packed
from spgraph_bench.timer import perf_counter

__all__ = ["PackedArrays"]


class PackedArrays:
    """Packed matrices by format, type and order: the last one on the host, all in use on the device.

    Checksums are kept of what was uploaded, and of the packed matrix on the host: no variant may change it.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._packed: tuple[str, Packed, float] | None = None
        self._uploaded: dict[str, dict[str, Buffer]] = {}
        self._upload_ms: dict[str, float] = {}
        self._sums: dict[str, dict[str, int]] = {}

    def key(self, cell: Cell) -> str:
        """What cells share whose packed matrix is the same."""
        return f"{self._assignment.variant(cell).format}/{cell.dtype}/{cell.reorder}"

    def packed(self, cell: Cell) -> tuple[Packed, float]:
        """The packed matrix and the time of its conversion in ms; only the last one is kept on the host."""
        task, key = self._assignment.task, self.key(cell)
        if self._packed is None or self._packed[0] != key:
            self._packed = None
            form = get_format(self._assignment.variant(cell).format).on(self._assignment.device.info().gpu)
            params = {k: v for k, v in task.params.items() if k in form.tunables}
            self._assignment.say(f"converting to {form.name}", guarded=False)
            csr = self._assignment.payload.matrix(cell.reorder)
            start = perf_counter()
            packed = form.pack(csr, np.dtype(cell.dtype), np.dtype(task.offsets), **params)
            self._packed = (key, locked(packed), (perf_counter() - start) * 1e3)
            self._sums.pop(f"host/{key}", None)
        return self._packed[1], self._packed[2]

    def placed(self, cell: Cell, packed: Packed) -> dict[str, Buffer] | None:
        """The arrays of `packed` where the cell's variant reads them: on the device, or (None) on the host."""
        key, device = self.key(cell), self._assignment.device
        if self._assignment.variant(cell).where == "cpu":
            if f"host/{key}" not in self._sums:
                self._sums[f"host/{key}"] = _host_sums(packed)
            return None
        self._assignment.say(f"uploading {packed.format}", guarded=True)
        if key not in self._uploaded:
            start = perf_counter()
            self._uploaded[key] = upload_packed(device, packed)
            device.synchronize()
            self._upload_ms[key] = (perf_counter() - start) * 1e3
            self._sums[key] = self._device_sums(key)
        return self._uploaded[key]

    def uploaded(self, cell: Cell) -> dict[str, Buffer]:
        """The arrays on the device, where :meth:`placed` put them."""
        return self._uploaded[self.key(cell)]

    def upload_times(self, cell: Cell) -> dict[str, float]:
        """``upload_ms`` of the cell's format; nothing where no memory of a device is involved."""
        on_gpu = self._assignment.variant(cell).where == "gpu" and self._assignment.device.kind != "host"
        ms = self._upload_ms.get(self.key(cell)) if on_gpu else None
        return {} if ms is None else {"upload_ms": ms}

    def spoiled(self, cell: Cell) -> str | None:
        """Which array of the packed matrix the cell's variant has changed, or None. It is put right again."""
        key = self.key(cell)
        if self._packed is None or self._packed[0] != key:
            return None
        packed = self._packed[1]
        if self._assignment.variant(cell).where == "cpu":
            before = self._sums.get(f"host/{key}")
            if before is None:  # it ended before it was given the matrix
                return None
            changed = [name for name, total in _host_sums(packed).items() if before[name] != total]
            if changed:
                self._packed = None
            return changed[0] if changed else None
        if key not in self._uploaded or not self._assignment.device_answers():
            return None
        changed = [name for name, total in self._device_sums(key).items() if self._sums[key][name] != total]
        for name in changed:
            self._assignment.device.write(self._uploaded[key][name], packed.arrays[name])
        return changed[0] if changed else None

    def drop_all_but(self, used: set[int]) -> None:
        """Free what is on the device but for the mappings in `used`, by their ``id``."""
        for key in [key for key, arrays in self._uploaded.items() if id(arrays) not in used]:
            for buffer in self._uploaded.pop(key).values():
                buffer.free()
        gc.collect()

    def _device_sums(self, key: str) -> dict[str, int]:
        device = self._assignment.device
        return {name: checksum(device, buffer) for name, buffer in self._uploaded[key].items()}


def _host_sums(packed: Packed) -> dict[str, int]:
    return {
        name: zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        for name, array in packed.arrays.items()
    }
