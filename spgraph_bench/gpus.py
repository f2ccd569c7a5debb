"""GPUs by name, with the sizes and limits that kernels, formats and advice depend on.

Limits of a multiprocessor and of a block are those of the compute capability (CUDA C++ Programming Guide 13.0, table
"Technical Specifications per Compute Capability"). Multiprocessors, L2, memory and bandwidth are from NVIDIA's data
sheets and architecture white papers, which :attr:`GPU.source` names; where cudaDeviceProp tells another L2 than the
paper, it is what the driver tells (H200: 60 MiB).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from spgraph_bench.errors import UsageError

__all__ = ["GPU", "GPUS", "H200", "get_gpu", "gpu_like"]


@dataclass(frozen=True)
class GPU:
    """What sizes are chosen by. Bytes are plain bytes, "shared" is shared memory."""

    name: str
    arch: str
    """"sm_90"."""
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int
    """As sold, in powers of ten; a driver tells a few percent more or less."""
    bandwidth: float | None
    """Of the memory, in decimal GB/s, as sold; None where it is not known."""
    threads_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int
    shared_per_block: int
    """At most, dynamic and static together; more than 48 KiB must be asked for (opt-in)."""
    reserved_shared: int
    """Of an SM's shared memory, what the system takes for each block."""
    registers_per_sm: int = 65536
    """32-bit registers; a block cannot have more either."""
    registers_per_thread: int = 255
    threads_per_block: int = 1024
    static_shared_per_block: int = 48 << 10
    source: str = ""

    def resident_blocks(self, threads: int, shared: int = 0, registers: int = 0) -> int:
        """How many blocks of `threads` threads and `shared` bytes, static ones included, the whole GPU holds at the
        same time: the largest grid of a cooperative launch. `registers`: of a thread; 0: they do not limit it."""
        warps = -(-max(threads, 1) // 32)
        each = min(self.threads_per_sm // 32 // warps, self.blocks_per_sm)
        each = min(each, self.shared_per_sm // (shared + self.reserved_shared) if shared else each)
        if registers:  # given to warps 256 at a time
            each = min(each, self.registers_per_sm // (warps * -(-registers * 32 // 256) * 256))
        return each * self.multiprocessors if shared <= self.shared_per_block else 0


_KIB = 1 << 10
_LIMITS: dict[int, tuple[int, int, int, int, int]] = {
    # Threads and blocks of an SM, KiB of shared memory of an SM and of a block, bytes reserved for a block.
    70: (2048, 32, 96, 96, 0),
    75: (1024, 16, 64, 64, 0),
    80: (2048, 32, 164, 163, 1024),
    86: (1536, 16, 100, 99, 1024),
    87: (1536, 16, 164, 163, 1024),
    89: (1536, 24, 100, 99, 1024),
    90: (2048, 32, 228, 227, 1024),
    100: (2048, 32, 228, 227, 1024),
    103: (2048, 32, 228, 227, 1024),
    110: (1536, 24, 228, 227, 1024),
    120: (1536, 24, 100, 99, 1024),
    121: (1536, 24, 100, 99, 1024),
}


def _gpu(
    name: str,
    capability: int,
    multiprocessors: int,
    l2_bytes: int,
    memory_bytes: int,
    bandwidth: float | None,
    source: str = "",
) -> GPU:
    threads, blocks, shared_sm, shared_block, reserved = _LIMITS[capability]
    return GPU(
        name,
        f"sm_{capability}",
        multiprocessors,
        l2_bytes,
        memory_bytes,
        bandwidth,
        threads,
        blocks,
        shared_sm * _KIB,
        shared_block * _KIB,
        reserved,
        source=source,
    )


_MIB, _GB = 1 << 20, 10**9

GPUS: tuple[GPU, ...] = (
    _gpu("T4", 75, 40, 4 * _MIB, 16 * _GB, 320.0, "NVIDIA T4 data sheet; Turing TU102 white paper, appendix on TU104"),
    _gpu("A100", 80, 108, 40 * _MIB, 80 * _GB, 2039.0, "A100 80GB (SXM) data sheet; A100 white paper, table 4"),
    _gpu("L4", 89, 58, 48 * _MIB, 24 * _GB, 300.0, "NVIDIA L4 data sheet; Ada white paper"),
    _gpu("RTX 4090", 89, 128, 72 * _MIB, 24 * _GB, 1008.0, "Ada white paper, appendix A"),
    _gpu("H100 PCIe", 90, 114, 50 * _MIB, 80 * _GB, 2039.0, "H100 PCIe product brief; H100 white paper, table 4"),
    _gpu("H200", 90, 132, 60 * _MIB, 141 * _GB, 4800.0, "NVIDIA H200 data sheet; L2: cudaDeviceProp"),
    _gpu("B200", 100, 148, 126 * _MIB, 180 * _GB, 8000.0, "HGX B200 data sheet; Blackwell tuning guide"),
)
"""From the oldest to the newest."""

H200 = next(gpu for gpu in GPUS if gpu.name == "H200")
"""Where no GPU is known: the one that defaults were chosen on."""


def _plain(name: str) -> str:
    """A name without what people write differently: case, spaces, dashes, the maker."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("nvidia").removeprefix("geforce")


def get_gpu(name: str) -> GPU:
    """The GPU called `name` ("T4", "rtx4090"), or of an architecture ("sm_89") the one with the least
    multiprocessors. Raises UsageError for any other."""
    wanted = _plain(name)
    named = [gpu for gpu in GPUS if wanted in (_plain(gpu.name), _plain(gpu.arch))]
    if not named:
        names = ", ".join(gpu.name for gpu in GPUS)
        archs = ", ".join(dict.fromkeys(gpu.arch for gpu in GPUS))
        raise UsageError(f"no GPU is called {name!r}", remedy=f"one of {names}, or {archs}")
    return min(named, key=lambda gpu: gpu.multiprocessors)


def gpu_like(
    name: str,
    arch: str,
    multiprocessors: int,
    l2_bytes: int,
    memory_bytes: int,
    shared_per_block: int = 0,
    shared_per_sm: int = 0,
) -> GPU:
    """A GPU as its driver describes it, with what the driver is not asked for from its compute capability.

    Where the capability is not known here, an SM has the least that any has. Shared memory of 0 bytes: as the
    capability's. The bandwidth is that of the GPU of this name (``"NVIDIA H200"``), if there is one.
    """
    digits = re.sub(r"\D", "", arch)
    known = int(digits) if digits else 0
    gpu = _gpu(
        name,
        known if known in _LIMITS else 75,
        multiprocessors,
        l2_bytes,
        memory_bytes,
        next((g.bandwidth for g in GPUS if _plain(g.name) == _plain(name)), None),
    )
    return replace(
        gpu,
        arch=arch,
        shared_per_block=shared_per_block or gpu.shared_per_block,
        shared_per_sm=shared_per_sm or gpu.shared_per_sm,
    )
