"""spgraph's own connected components. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spgraph_bench.device.base import Arg, Buffer
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import GRID, Stamps, cooperative_shape, needs_cooperative, threads_for

__all__: list[str] = []

_DTYPES = ("int32",)


def _cooperative(
    job: Job,
    name: str,
    items: int,
    steps: Sequence[str],
    args: Callable[[np.int32, Buffer], tuple[Arg, ...]],
    extra: int = 0,
) -> Launch:
    """A Launch of the cooperative kernel `name` and of what brings labels of relabelled vertices back.

    ``args(n, label)`` are the kernel's arguments but for the barrier and stamps, `extra` the bytes of buffers
    among them; `steps` names the codes of its stamps; a grid has at most a thread for each of `items`.
    """
    n, device, result = np.int32(job.packed.rows), job.device, job.buffers["label"]
    if n == 0:
        return job.launch(lambda: None, output="label", operations=0)
    barrier = device.empty(1, np.uint32)
    device.fill(barrier, 0)
    relabelled = "new_id" in job.arrays
    label = device.empty(int(n), np.int32) if relabelled else result
    kernel = job.kernel(name)
    grid, block = cooperative_shape(device, kernel, job.params, items)

    def bound(stamps: Stamps) -> Callable[[], None]:
        own = (*args(n, label), barrier, stamps.buffer, stamps.size)
        return kernel.bind(grid, block, *own, cooperative=True)

    def watched() -> list[dict[str, Any]]:
        stamps = Stamps(device, 2 * int(n) + 8)
        (steps_read,) = stamps.read(bound(stamps))
        return [{"how": steps[code], "ms": ms} for _, code, ms in steps_read]

    launches = [bound(Stamps(device, 0))]
    if relabelled:
        least, width = device.empty(int(n), np.int32), -(-int(n) // 256)
        extra += label.nbytes + least.nbytes
        old, new = job.arrays["old_id"], job.arrays["new_id"]
        after = {"begin": (least,), "least": (label, old, least), "write": (label, new, least, result)}
        for step, own in after.items():
            restore = job.kernel(f"cc_restore_{step}", "cc/restore.cu")
            blocks = min(width, 8 * device.info().multiprocessors) if step == "least" else width
            launches.append(restore.bind(blocks, 256, n, *own))

    def run() -> None:
        for launch in launches:
            launch()

    return job.launch(
        run if relabelled else launches[0],
        output="label",
        operations=len(launches),
        extra_bytes=extra + barrier.nbytes,
        keep=(launches, label),
        steps=watched,
    )


def _by_edge(job: Job, name: str, steps: Sequence[str]) -> Launch:
    a, nnz, changed = job.arrays, job.packed.nnz, job.device.empty(3, np.int32)
    edges = job.packed.offsets.type(nnz)
    return _cooperative(
        job,
        name,
        max(nnz, job.packed.rows),
        steps,
        lambda n, label: (n, edges, a["row"], a["col"], label, changed),
        changed.nbytes,
    )


@variant(
    "cc",
    "label",
    format="pattern-coo",
    source="cc/label.cu",
    tunables=GRID,
    dtypes=_DTYPES,
    missing=needs_cooperative,
    about="the least label along every edge, in rounds",
)
def label(job: Job) -> Launch:
    return _by_edge(job, "cc_label", ["every edge"])


@variant(
    "cc",
    "hook",
    format="pattern-coo",
    source="cc/hook.cu",
    tunables=GRID,
    dtypes=_DTYPES,
    missing=needs_cooperative,
    about="Shiloach-Vishkin: roots hooked along every edge, paths shortened, in turn",
)
def hook(job: Job) -> Launch:
    return _by_edge(job, "cc_hook", ["hooking", "shortening"])


_SAMPLING = {
    "rounds": Parameter(
        2, "neighbours of each vertex that are joined before the hub's tree is left alone", between=(0, 64)
    ),
    "hub_degree": Parameter(
        64, "search from the hub if it has this many times the mean number of edges", between=(0, 2**31 - 1)
    ),
    "probes": Parameter(8, "neighbours of each vertex that each of two searches looks at", between=(1, 1 << 16)),
    # Offsets go up to a list's length beyond the last edge: int32 ones leave 2^16 for that (INT32_ENTRIES).
    "long_list": Parameter(
        1024, "longest list of neighbours that a warp walks alone; longer ones are cut", between=(1, 1 << 16)
    ),
}


_STEPS = (
    "first neighbour",
    "around the hub",
    "up to roots",
    "more neighbours",
    "outside of the hub's tree",
    "long lists",
    "labels",
    "the hub's neighbours",
    "search from the hub",
)


@variant(
    "cc",
    "afforest",
    format="adjacency",
    source="cc/afforest.cu",
    tunables=GRID | _SAMPLING,
    dtypes=_DTYPES,
    missing=needs_cooperative,
    about="a search from a hub, or two neighbours each; then all of those not in the hub's tree",
)
def afforest(job: Job) -> Launch:
    a, p, device = job.arrays, job.params, job.device
    directed = job.packed.row is not job.packed.col
    # A list longer than L has at most 2 length / L parts.
    pieces = 2 * (1 + directed) * job.packed.nnz // p["long_list"] + 1
    piece, state = device.empty(pieces, np.int64), device.empty(2, np.int32)
    near = device.empty(-(-max(job.packed.rows, 1) // 32), np.uint32)
    incoming = (a["col_ptr"], a["row"]) if directed else (None, None)
    edges = job.packed.offsets.type(job.packed.nnz)
    return _cooperative(
        job,
        "cc_afforest",
        threads_for(job.packed.rows, job.packed.nnz),
        _STEPS,
        lambda n, label: (
            n,
            edges,
            a["row_ptr"],
            a["col"],
            *incoming,
            label,
            np.int32(p["rounds"]),
            np.int32(p["probes"]),
            np.int32(p["hub_degree"]),
            np.int32(p["long_list"]),
            piece,
            state,
            near,
        ),
        piece.nbytes + state.nbytes + near.nbytes,
    )
