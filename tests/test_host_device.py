"""The host device: every feature of the shim against plain numpy, every error it must report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench.device import host_compiler
from spgraph_bench.device.host import HostDevice
from spgraph_bench.errors import CompileError, DeviceError, LaunchError
from spgraph_bench.paths import cuda_dir
from spgraph_bench.toolchain import compilers, modules
from spgraph_bench.toolchain.nvcc import uses_device_launch

KERNELS = Path(__file__).resolve().parent / "kernels"
SEEDS = [0, 1, 20260730]
JUNK = 0xFFF9FFF9
"""What memory holds that nothing has written."""
I32 = np.int32

pytestmark = pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """All fixture kernels together, in parallel; a failure shows in the test that needs the file."""
    modules.build_all([host_compiler.module_request(str(f)) for f in KERNELS.glob("host_*.cu")])


def kernel(device: HostDevice, file: str, name: str, **defines: str) -> Any:
    types = {"SPG_VALUE": "float", "SPG_OFFSET": "int"}
    return device.compile(str(KERNELS / f"host_{file}.cu"), {**types, **defines}).kernel(name)


@pytest.fixture(params=SEEDS)
def device(request: pytest.FixtureRequest) -> HostDevice:
    return HostDevice(seed=request.param)


@pytest.fixture
def plain() -> HostDevice:
    return HostDevice()


def zeros(device: HostDevice, n: int, dtype: Any = np.int32) -> Any:
    return device.upload(np.zeros(n, dtype))


# ---- loops, rows, blocks --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thread_per_element(device: HostDevice, dtype: Any) -> None:
    x = np.arange(1000, dtype=dtype)
    y = device.upload(x)
    run = kernel(device, "basics", "axpy", SPG_VALUE="float" if dtype == np.float32 else "double")
    run(4, 256, I32(1000), dtype(2), device.upload(x), y)
    np.testing.assert_array_equal(device.download(y), 3 * x)


def test_warp_per_row(device: HostDevice) -> None:
    rng = np.random.default_rng(1)
    row_ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 90, 500))]).astype(np.int64)
    val = rng.integers(-9, 9, row_ptr[-1]).astype(np.float32)
    y = device.empty(500, np.float32)
    run = kernel(device, "basics", "row_sums", SPG_OFFSET="long long")
    run((500 * 32 + 127) // 128, 128, I32(500), device.upload(row_ptr), device.upload(val), y)
    expected = [val[a:b].sum() for a, b in pairwise(row_ptr)]
    np.testing.assert_array_equal(device.download(y), expected)


def test_block_sum_and_counters(device: HostDevice) -> None:
    x = np.ones(1000, np.float32)
    total = zeros(device, 1, np.float32)
    run = kernel(device, "basics", "block_sum").bind(4, 256, I32(1000), device.upload(x), total)
    run()
    assert device.download(total) == 1000
    assert device.counters() == {
        "global_atomics": 4,
        "shared_atomics": 0,
        "kernel_launches": 1,
        "child_launches": 0,
        "barriers": 4 * 9,
        "claims": 0,
        "reservations": 0,  # of a float: a sum, no place
    }
    device.reset_counters()
    assert set(device.counters().values()) == {0}


def test_speed(plain: HostDevice) -> None:
    n = 1 << 20
    x = plain.upload(np.ones(n, np.float32))
    axpy = kernel(plain, "basics", "axpy").bind(n // 256, 256, I32(n), np.float32(1), x, x)
    row_ptr = np.arange(4097, dtype=np.int32) * 40
    rows = kernel(plain, "basics", "row_sums").bind(
        512, 256, I32(4096), plain.upload(row_ptr), x, plain.empty(4096, np.float32)
    )
    best = {}
    for name, run in (("axpy", axpy), ("rows", rows)):
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        best[name] = min(times)
    plain.synchronize()
    assert best["axpy"] < 0.2  # a plain loop: measured 0.01 s
    assert best["rows"] < 0.3  # 655,360 shuffles on fibers: measured 0.025 s


# ---- warps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_shuffles(device: HostDevice, width: int, dtype: str) -> None:
    x = np.arange(64).astype("f4" if dtype == "float" else "f8") * 1.5
    out = device.empty((6, 64), x.dtype)
    kernel(device, "warp", "shuffles", SPG_VALUE=dtype)(1, 64, device.upload(x), I32(width), out)
    lane = np.arange(32)
    first, last = lane & ~(width - 1), lane | (width - 1)
    sources = [
        first + 5 % width,
        first + (lane + 3) % width,
        np.where(lane - 3 < first, lane, lane - 3),
        np.where(lane + 3 > last, lane, lane + 3),
        np.where((lane ^ 1) > last, lane, lane ^ 1),
        np.where((lane ^ 9) > last, lane, lane ^ 9),
    ]
    expected = [x.reshape(2, 32)[:, s].ravel() for s in sources]
    np.testing.assert_array_equal(device.download(out), expected)


def test_shuffle_types(plain: HostDevice) -> None:
    bad = plain.empty(32, np.uint32)
    kernel(plain, "warp", "shuffle_types")(1, 32, bad)
    assert not plain.download(bad).any()


def test_votes(device: HostDevice) -> None:
    x = np.random.default_rng(3).integers(0, 8, 32).astype(np.int32)
    x[:2] = 7, 3
    out = device.empty((11, 32), np.uint32)
    kernel(device, "warp", "votes")(1, 32, device.upload(x), out)
    bit = np.uint32(1) << np.arange(32, dtype=np.uint32)
    every = np.uint32(0xFFFFFFFF)
    expected = [
        bit[x > 3].sum(),
        2,
        2,
        [bit[x == v].sum() for v in x],
        every,
        1 + 2,
        x.sum(),
        2**32 - int(x.max()),
        x.max(),
        np.bitwise_xor.reduce(x),
        np.bitwise_or.reduce(x) + 1000 * np.bitwise_and.reduce(x),
    ]
    np.testing.assert_array_equal(device.download(out), [np.broadcast_to(e, 32) for e in expected])


def test_halves_of_a_warp_meet_apart(device: HostDevice) -> None:
    out = device.empty(32, np.uint32)
    kernel(device, "warp", "halves")(1, 32, out)
    expected = [120] * 16 + [0x00AA0000] * 8 + [0] * 8
    np.testing.assert_array_equal(device.download(out), np.array(expected) + 32000)


@pytest.mark.parametrize("threads", [32, 20, 70])
def test_lanes_that_returned_stop_no_others(device: HostDevice, threads: int) -> None:
    out = device.upload(np.zeros(threads, np.uint32))
    kernel(device, "warp", "leaving")(1, threads, out)
    t = np.arange(threads)
    expected = [0 if i % 3 == 0 else sum(1 << j % 32 for j in t if j // 32 == i // 32 and j % 3) for i in t]
    values = device.download(out)
    # Lanes that had not returned when the collective was complete may count; those that returned never do.
    np.testing.assert_array_equal(values, expected)


def test_active_mask_counts_right_however_lanes_converge(device: HostDevice) -> None:
    x = np.random.default_rng(4).integers(-5, 5, 1000).astype(np.int32)
    count = zeros(device, 1)
    kernel(device, "warp", "aggregated")(8, 128, I32(1000), device.upload(x), count)
    assert device.download(count) == (x > 0).sum()
    atomics = device.counters()["global_atomics"]
    warps = 1000 // 32 + 1
    assert atomics == warps if device.info().extra["seed"] == 0 else warps < atomics <= (x > 0).sum()


def test_absent_lane_gives_junk(plain: HostDevice) -> None:
    out = plain.empty(8, np.uint32)
    kernel(plain, "warp", "absent_lane")(1, 32, out)
    assert (plain.download(out) == JUNK).all()


def test_bit_tricks(plain: HostDevice) -> None:
    x, y = 0x00F0_1230, 0x0000_8000_0000_0001
    out = plain.empty(12, np.uint32)
    kernel(plain, "warp", "bit_tricks")(1, 1, np.uint32(x), np.uint64(y), out)
    expected = [
        x.bit_count(),
        2,
        5,
        8,
        16,
        int(f"{x:032b}"[::-1], 2),
        32 + 0 + 64,
        x * 3000000000 >> 32,
        0x77553311,
        0x38,
        3 + 9 + 2 + 7,
        (0xC0000000 + 1) % 2**32,
    ]
    assert plain.download(out).tolist() == expected


# ---- memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_transpose_in_shared_memory(device: HostDevice, dtype: str) -> None:
    x = np.arange(100 * 70).reshape(100, 70).astype("f4" if dtype == "float" else "f8")
    out = device.empty((70, 100), x.dtype)
    kernel(device, "memory", "transpose", SPG_VALUE=dtype)((3, 4), (32, 8), I32(100), I32(70), device.upload(x), out)
    np.testing.assert_array_equal(device.download(out), x.T)


def test_dynamic_shared_memory(device: HostDevice) -> None:
    x = device.upload(np.arange(320, dtype=np.int32))
    counts = device.empty(5, np.int32)
    kernel(device, "memory", "reverse")(5, 64, x, counts, shared=64 * 4)
    np.testing.assert_array_equal(device.download(x), np.arange(320).reshape(5, 64)[:, ::-1].ravel())
    assert (device.download(counts) == 64).all()
    assert device.counters()["shared_atomics"] == 320
    assert device.counters()["global_atomics"] == 0


def test_shared_and_device_memory_start_as_junk(plain: HostDevice) -> None:
    out = plain.empty((3, 2), np.uint32)
    assert (plain.download(out) == JUNK).all()
    kernel(plain, "memory", "uninitialised")(3, 1, out)
    assert plain.download(out).tolist() == [[JUNK, 7]] * 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_junk_is_no_number(plain: HostDevice, dtype: type) -> None:
    """A finite one cancels out in betweenness: counts of paths that begin with any number give the same shares."""
    assert np.isnan(plain.download(plain.empty(37, dtype))).all()


def test_device_functions_and_voting_barriers(device: HostDevice) -> None:
    out = device.empty(64, np.int32)
    kernel(device, "memory", "neighbours")(1, 64, out)
    t = np.arange(64)
    np.testing.assert_array_equal(device.download(out), np.maximum(t - 1, 0) + 100 * 22 + 10000 + 20000 + 0 * 40000)


def test_atomics(device: HostDevice) -> None:
    n = 500
    i, u = device.upload(np.zeros(5, I32)), device.upload(np.array([0, 0, 255, 0, 0], np.uint32))
    wide, f, d = zeros(device, 3, np.uint64), zeros(device, 1, np.float32), zeros(device, 2, np.float64)
    kernel(device, "memory", "atomics")(4, 128, I32(n), i, u, wide, f, d)
    t = np.arange(n)
    assert device.download(i).tolist() == [t.sum(), -t.sum(), 1 - n, n - 1, np.bitwise_xor.reduce(t)]
    assert device.download(u).tolist() == [n, 2**32 - 1, 128, n % 10, 5]
    assert device.download(wide).tolist() == [n << 33, n - 1, 3 * n]
    assert device.download(f).tolist() == [n / 2]
    assert device.download(d).tolist() == [n / 4, n]
    assert device.counters()["global_atomics"] >= 16 * n


def test_vectors(plain: HostDevice) -> None:
    x = np.arange(80, dtype=np.float32).reshape(20, 4)
    out = plain.empty((20, 2), np.float64)
    kernel(plain, "memory", "vectors")(1, 20, plain.upload(x), out)
    np.testing.assert_array_equal(plain.download(out), np.stack([x[:, 0] + 2 * x[:, 1], 3 * x[:, 2] + x[:, 3]], 1))


def test_device_heap_has_a_limit(plain: HostDevice) -> None:
    failed = zeros(plain, 1, np.uint32)
    run = kernel(plain, "memory", "heap")
    plain.set_limit("malloc_heap_bytes", 1 << 20)
    run(1, 64, I32(1 << 16), I32(0), failed)
    assert plain.download(failed) == 0
    run(1, 64, I32(1 << 16), I32(1), failed)
    assert plain.download(failed) == 64 - 16


def test_spins_between_blocks_end() -> None:
    device = HostDevice(seed=0)  # block i waits for block i - 1: seeds shuffle which of them start
    flags, order = zeros(device, 300), device.empty(300, np.int32)
    kernel(device, "memory", "chained")(300, 64, flags, order)
    np.testing.assert_array_equal(device.download(order), np.arange(1, 301))


def test_a_lock_ends(device: HostDevice) -> None:
    lock, total = zeros(device, 1), zeros(device, 1)
    kernel(device, "memory", "locked")(4, 32, lock, total)
    assert device.download(total) == 128


def test_seed_varies_the_schedule_and_repeats_it() -> None:
    def order(seed: int) -> list[int]:
        device = HostDevice(seed=seed)
        out = device.empty(96, np.uint32)
        kernel(device, "memory", "ticket")(3, 32, zeros(device, 1, np.uint32), out)
        return list(device.download(out))

    assert order(0) == list(range(96))
    assert order(5) == order(5) != order(6)
    assert sorted(order(5)) == list(range(96))


def test_a_launch_runs_as_the_one_before() -> None:
    """Without a seed a thread is stopped after so many relaxed loads, counted from the launch on."""
    device = HostDevice(seed=0)
    run, word = kernel(device, "memory", "ticket_after_loads"), zeros(device, 1)

    def order() -> list[int]:
        out = device.empty(4, np.uint32)
        run(1, 4, word, I32(30_000), zeros(device, 1, np.uint32), out)
        return list(device.download(out))

    first = order()
    assert first == order() == order() != list(range(4))


# ---- groups, children, tensor cores ---------------------------------------------------------------------


def test_grid_sync(device: HostDevice) -> None:
    x = np.arange(1000, dtype=np.int32)
    buffer = device.upload(x)
    run = kernel(device, "groups", "grid_rounds")
    run(8, 128, I32(1000), I32(5), buffer, device.empty(1000, np.int32), cooperative=True)
    np.testing.assert_array_equal(device.download(buffer), x[::-1] + 5)
    assert device.counters()["barriers"] == 10


def test_grid_sync_needs_a_cooperative_launch_that_fits(plain: HostDevice) -> None:
    run, x = kernel(plain, "groups", "grid_rounds"), zeros(plain, 10)
    run(2, 32, I32(10), I32(1), x, x)
    with pytest.raises(LaunchError, match="not cooperative"):
        plain.synchronize()
    with pytest.raises(LaunchError, match=r"cooperative launch of 1048576 threads"):
        run(1024, 1024, I32(10), I32(1), x, x, cooperative=True)


def test_resident_blocks(plain: HostDevice) -> None:
    run, x = kernel(plain, "groups", "grid_rounds"), zeros(plain, 10)
    assert run.resident_blocks(1024) == 8
    assert run.resident_blocks((32, 8)) == 32
    assert run.resident_blocks(32) == 128
    assert run.resident_blocks(32, shared=100 << 10) == 8
    assert run.resident_blocks(32, shared=1 << 20) == 0
    run(run.resident_blocks(1024), 1024, I32(10), I32(2), x, zeros(plain, 10), cooperative=True)
    assert (plain.download(x) == 2).all()


def test_tiles(device: HostDevice) -> None:
    x = np.random.default_rng(5).integers(0, 99, 64).astype(np.int32)
    out = device.empty((6, 64), np.int32)
    kernel(device, "groups", "tiles")(1, 64, device.upload(x), out)
    t, tile = np.arange(64), x.reshape(8, 8)
    expected = [
        tile.sum(1).repeat(8),
        np.concatenate([tile[:, 1:], tile[:, 7:]], 1).ravel(),
        tile[:, 2].repeat(8) + 1000 * (t // 8) + 100000 * (t % 8),
        ((tile % 2) << np.arange(8)).sum(1).repeat(8),
        tile.sum(1).repeat(8),
        tile.max(1).repeat(8),
    ]
    np.testing.assert_array_equal(device.download(out), expected)


def test_coalesced_groups(device: HostDevice) -> None:
    x = np.random.default_rng(6).integers(1, 999, 500).astype(np.int32)
    out, count = zeros(device, 500), zeros(device, 1)
    kernel(device, "groups", "compact")(4, 128, I32(500), device.upload(x), out, count)
    n = int(device.download(count)[0])
    np.testing.assert_array_equal(np.sort(device.download(out)[:n]), np.sort(x[x % 3 == 0]))


def test_children(device: HostDevice) -> None:
    out, failed = zeros(device, 256), zeros(device, 1, np.uint32)
    kernel(device, "children", "spread")(2, 32, out, failed)
    expected = 10 * np.arange(64)[:, None] + np.arange(4)
    np.testing.assert_array_equal(device.download(out).reshape(64, 4), expected)
    assert device.counters()["child_launches"] == 64
    assert device.counters()["kernel_launches"] == 1


def test_children_beyond_the_pool_are_not_run(plain: HostDevice) -> None:
    out, failed = zeros(plain, 4 * 3200), zeros(plain, 1, np.uint32)
    run = kernel(plain, "children", "spread").bind(100, 32, out, failed)
    run()
    assert plain.download(failed) == 3200 - 2048
    assert (plain.download(out)[4 * 2048 :: 4] == -69).all()
    plain.set_limit("pending_launches", 4096)
    plain.fill(failed, 0)
    run()
    assert plain.download(failed) == 0


def test_tails_run_last(device: HostDevice) -> None:
    log = zeros(device, 200)
    kernel(device, "children", "ordered")(3, 32, log)
    values = device.download(log)
    assert values[0] == 96 + 3
    assert (values[1:97] == 1).all()
    assert sorted(values[97:100]) == [1000, 1001, 1002]


def test_a_block_stream_keeps_its_order(device: HostDevice) -> None:
    log = zeros(device, 32)
    kernel(device, "children", "in_stream")(1, 32, log)
    assert device.download(log)[:21].tolist() == [20, *range(20)]


def test_a_named_stream_keeps_its_order_and_belongs_to_its_grid(device: HostDevice) -> None:
    log, errors = zeros(device, 32), zeros(device, 7)
    kernel(device, "children", "streams")(1, 1, log, errors)
    assert device.download(log)[:21].tolist() == [20, *range(20)]
    assert device.download(errors).tolist() == [1, 1, 0, 0, 400, 400, 400]  # invalid value, invalid resource handle


def test_long_tail_chains_and_trees(device: HostDevice) -> None:
    count = zeros(device, 1)
    kernel(device, "children", "chain")(1, 1, count, I32(20000))
    assert device.download(count) == 20001
    device.set_limit("pending_launches", 1 << 20)
    kernel(device, "children", "tree")(1, 32, count, I32(9))
    assert device.download(count) == 20001 + 2**10 - 1


def test_a_child_that_cannot_be(plain: HostDevice) -> None:
    out = zeros(plain, 2)
    kernel(plain, "children", "too_large")(1, 1, out)
    assert plain.download(out).tolist() == [9, 0]
    kernel(plain, "children", "leaks_shared")(1, 32, zeros(plain, 32))
    with pytest.raises(LaunchError, match="pointer to shared memory of its parent"):
        plain.synchronize()


def test_tensor_core_tile(device: HostDevice) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-8, 8, (16, 16)).astype(np.float16) for _ in range(2))
    c = rng.integers(-8, 8, (16, 16)).astype(np.float32)
    out = device.empty((16, 16), np.float32)
    run = kernel(device, "wmma", "tile_product")
    run(1, 32, device.upload(a), device.upload(np.ascontiguousarray(b.T)), device.upload(c), out)
    expected = 2 * (a.astype(np.float32) @ b.astype(np.float32) + c)
    np.testing.assert_array_equal(device.download(out), expected.T)


def test_half_rounds_as_numpy_does(plain: HostDevice) -> None:
    bits = np.random.default_rng(8).integers(0, 2**32, 200000, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0, -0.0, 65504, 65519.99, 65520, 1e9, 6e-8, 2.98e-8, 2.99e-8, 6.1e-5, np.inf, -np.inf], "f4")
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[:-1] + halves[1:]) / 2
    x = np.concatenate([bits.view(np.float32), edges, halves, ties, -ties])
    x = x[~np.isnan(x)]
    h, back = plain.empty(x.size, np.float16), plain.empty(x.size, np.float32)
    kernel(plain, "wmma", "half_round_trip")(x.size // 256 + 1, 256, I32(x.size), plain.upload(x), h, back)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(plain.download(h).view(np.uint16), expected.view(np.uint16))
    np.testing.assert_array_equal(plain.download(back), expected.astype(np.float32))


def test_half_arithmetic(plain: HostDevice) -> None:
    a, b, out = np.float16(1.5), np.float16(0.3), plain.empty(6, np.float16)
    kernel(plain, "wmma", "half_arithmetic")(1, 1, a, b, out)
    fused = np.float16(np.float64(a) * np.float64(b) + 0.5)
    assert plain.download(out).tolist() == [a + b, a * b, fused, b, a + b, b + b]


# ---- errors ---------------------------------------------------------------------------------------------

FAULTS = KERNELS / "host_faults.cu"


def line(mark: int) -> str:
    return f"{FAULTS}:{mark}"


def fault(device: HostDevice, name: str, threads: int, *args: Any, shared: int = 0) -> LaunchError:
    kernel(device, "faults", name)(1, threads, *args, shared=shared)
    with pytest.raises(LaunchError) as caught:
        device.synchronize()
    device.synchronize()  # told once
    return caught.value


def test_early_return_before_a_barrier(device: HostDevice) -> None:
    error = fault(device, "early_return", 256, I32(244), zeros(device, 256))
    assert "early_return: 12 of 256 threads of block (0,0,0) never reached __syncthreads()" in error.cause
    assert error.place == line(26)
    lenient = HostDevice(strict=False)
    kernel(lenient, "faults", "early_return")(1, 256, I32(244), zeros(lenient, 256))
    lenient.synchronize()


def test_diverged_barriers(device: HostDevice) -> None:
    error = fault(device, "two_barriers", 32, zeros(device, 32))
    assert "meet at different barriers" in error.cause
    assert "host_faults.cu:31" in error.cause
    assert "host_faults.cu:32" in error.cause
    error = fault(device, "barrier_in_branch", 32, zeros(device, 32))
    assert "12 of 32 threads of block (0,0,0) never reached __syncthreads(): some wait at __shfl_sync" in error.cause
    assert error.place == line(38)


def test_warp_collectives_that_do_not_match(device: HostDevice) -> None:
    out = zeros(device, 32, np.uint32)
    assert "its own lane" in fault(device, "foreign_mask", 32, out).cause
    assert "meet at different operations" in fault(device, "mixed_collectives", 32, out).cause


def test_errors_become_launch_errors(device: HostDevice) -> None:
    out = zeros(device, 4)
    error = fault(device, "wild", 1, out, np.int64(1 << 45))
    assert "wild: invalid memory access in thread (0,0,0) of block (0,0,0)" in error.cause
    assert error.place == line(50)
    assert "stack overflow" in fault(device, "deep", 1, I32(1000), out).cause
    error = fault(device, "trapped", 1, out)
    assert "__trap()" in error.cause
    assert error.place == line(65)
    assert "64000 bytes of static shared memory" in fault(device, "much_shared", 1, out).cause
    if os.uname().machine == "x86_64":  # elsewhere it gives 0
        error = fault(device, "divide", 1, I32(1), I32(0), out)
        assert "integer division by zero" in error.cause
        assert error.place == line(52)
    # and the device still works
    kernel(device, "memory", "ticket")(1, 4, zeros(device, 1, np.uint32), device.upload(np.zeros(4, np.uint32)))
    device.synchronize()


def test_launches_after_an_error_do_nothing_until_it_is_reported(plain: HostDevice) -> None:
    out = zeros(plain, 4)
    kernel(plain, "faults", "trapped")(1, 1, out)
    count = zeros(plain, 1)
    kernel(plain, "children", "chain")(1, 1, count, I32(0))
    with pytest.raises(LaunchError, match="trap"):
        plain.download(count)
    assert plain.download(count) == 0


IMPORTS = "from spgraph_bench.device.host import HostDevice\nfrom spgraph_bench.errors import *\n"


def sanitised(*sanitizers: str, code: str) -> subprocess.CompletedProcess[str]:
    head = "import numpy as np\n" + IMPORTS
    env = {**host_compiler.sanitizer_env(*sanitizers), "PYTHONPATH": str(KERNELS.parents[1])}
    return subprocess.run([sys.executable, "-c", head + code], env=env, capture_output=True, text=True, timeout=120)


def have_asan() -> bool:
    try:
        return "LD_PRELOAD" in host_compiler.sanitizer_env()
    except DeviceError:
        return False


@pytest.mark.skipif(not have_asan(), reason="the compiler has no AddressSanitizer")
def test_address_sanitizer_catches_the_first_byte_beyond() -> None:
    code = f"""
device = HostDevice()
module = device.compile({str(FAULTS)!r})
def outcome(name, *args, shared=0):
    module.kernel(name)(1, 32, *args, shared=shared)
    try:
        device.synchronize()
    except LaunchError as error:
        return f"{{error.place}} {{error.cause}}"
    return "fine"
i, x, y = np.int32, device.upload(np.zeros(32, np.int32)), device.empty(32, np.int32)
print(outcome("beyond", x, i(0), y))
print(outcome("beyond", x, i(1), y))
print(outcome("beyond", x, i(-1), y))
print(outcome("beyond", device.empty(0, np.int32), i(0), y))
print(outcome("beyond_shared", i(0), x))
print(outcome("beyond_shared", i(1), x))
print(outcome("beyond_dynamic", i(0), x, shared=128))
print(outcome("beyond_dynamic", i(0), x, shared=124))
print(outcome("early_return", i(20), y))
print(outcome("wild", y, np.int64(1 << 45)))
x.free()
print(outcome("early_return", i(32), y))
"""
    done = sanitised("address", code=code)
    out = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(out) == 11
    assert out[0] == out[4] == out[6] == out[10] == "fine"
    for position, mark in ((1, 4), (2, 4), (3, 4), (5, 11), (7, 17)):
        assert out[position].startswith(f"{line(mark)} "), out[position]
        assert "heap-buffer-overflow" in out[position] or "use-after-poison" in out[position]
    assert "a read of 4 bytes by thread (31,0,0) of block (0,0,0)" in out[1]
    assert "a write of 4 bytes" in out[7]
    assert "never reached __syncthreads()" in out[8]
    assert out[9].startswith(f"{line(50)} wild: invalid memory access")


@pytest.mark.slow  # per commit the kernels themselves run under it
@pytest.mark.skipif(not have_asan(), reason="the compiler has no AddressSanitizer")
def test_all_features_under_address_sanitizer() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            __file__,
            "-k",
            "not sanitizer and not fault and not speed and not slow and not half_rounds and not shuffle",
        ],
        env={**host_compiler.sanitizer_env(), "PYTHONPATH": str(KERNELS.parents[1])},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "ERROR: AddressSanitizer" not in done.stderr


def test_undefined_behaviour_sanitizer() -> None:
    code = f"""
device = HostDevice()
kernel = device.compile({str(FAULTS)!r}).kernel("misaligned")
x = device.empty(8, np.float32)
kernel(1, 1, x, x)
try:
    device.synchronize()
except LaunchError as error:
    print(error.place, error.cause)
"""
    done = sanitised("undefined", code=code)
    assert done.stdout.startswith(f"{line(68)} misaligned: undefined behaviour"), done.stderr[-2000:]


def test_sanitizer_that_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "try: HostDevice()\nexcept DeviceError as error: print(error)"
    env = {**os.environ, "SPGRAPH_HOST_SANITIZE": "address", "PYTHONPATH": str(KERNELS.parents[1])}
    env.pop("LD_PRELOAD", None)
    done = subprocess.run([sys.executable, "-c", IMPORTS + code], env=env, capture_output=True, text=True, timeout=60)
    assert "LD_PRELOAD" in done.stdout
    monkeypatch.setenv("SPGRAPH_HOST_SANITIZE", "memory")
    with pytest.raises(DeviceError, match="has no 'memory'"):
        HostDevice()


# ---- launches -------------------------------------------------------------------------------------------


def test_arguments_are_checked(plain: HostDevice) -> None:
    axpy, x = kernel(plain, "basics", "axpy"), plain.upload(np.ones(4, np.float32))
    good = (I32(4), np.float32(1), x, x)
    for args, message in [
        (good[:3], "takes 4 arguments, got 3"),
        ((4, *good[1:]), "argument 1 is int32, got int"),
        ((np.int64(4), *good[1:]), "argument 1 is int32, got int64"),
        ((np.uint32(4), *good[1:]), "argument 1 is int32, got uint32"),
        ((x, *good[1:]), "argument 1 is int32, got a buffer"),
        ((I32(4), np.float64(1), x, x), "argument 2 is float32, got float64"),
        ((I32(4), np.float32(1), I32(1), x), "argument 3 is a pointer, got int32"),
        ((I32(4), np.float32(1), plain.empty(4, np.float64), x), "points to float32, got a buffer of float64"),
        ((I32(4), np.float32(1), plain.empty(4, np.int32), x), "points to float32, got a buffer of int32"),
    ]:
        with pytest.raises(TypeError, match=message):
            axpy.bind(1, 4, *args)
    axpy(1, 4, I32(0), np.float32(1), None, None)
    plain.synchronize()


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [(1, 1025, 0), (1, (32, 33), 0), (1, (1, 1, 65), 0), (1, 0, 0), ((1, 65536), 32, 0), (1, 32, 300 << 10)],
)
def test_launches_that_are_refused(plain: HostDevice, grid: Any, block: Any, shared: int) -> None:
    axpy, x = kernel(plain, "basics", "axpy"), plain.empty(4, np.float32)
    with pytest.raises(LaunchError, match="axpy: invalid launch"):
        axpy(grid, block, I32(4), np.float32(1), x, x, shared=shared)


@pytest.mark.parametrize("grid", [0, (0, 3), (4, 0, 1)])
def test_an_empty_grid_is_not_a_launch(plain: HostDevice, grid: Any) -> None:
    x = zeros(plain, 4, np.float32)
    kernel(plain, "basics", "axpy")(grid, 32, I32(4), np.float32(1), x, x)
    assert plain.counters()["kernel_launches"] == 0


def test_bad_dimensions(plain: HostDevice) -> None:
    axpy, x = kernel(plain, "basics", "axpy"), plain.empty(4, np.float32)
    with pytest.raises(LaunchError, match="invalid grid"):
        axpy(-1, 32, I32(4), np.float32(1), x, x)
    with pytest.raises(TypeError, match="1 to 3 dimensions"):
        axpy((1, 1, 1, 1), 32, I32(4), np.float32(1), x, x)


def test_buffers(plain: HostDevice) -> None:
    x = np.arange(6, dtype=np.float64).reshape(2, 3)[:, ::-1]
    buffer = plain.upload(x)
    assert (buffer.shape, buffer.dtype, buffer.nbytes, buffer.ptr % 256) == ((2, 3), x.dtype, 48, 0)
    np.testing.assert_array_equal(plain.download(buffer), x)
    plain.write(buffer, np.zeros((3, 2)))
    assert not plain.download(buffer).any()
    plain.fill(buffer, 0xFF)
    assert np.isnan(plain.download(buffer)).all()
    for wrong in (np.zeros(6, np.float32), np.zeros(5)):
        with pytest.raises(TypeError, match="cannot take"):
            plain.write(buffer, wrong)
    empty = plain.empty((0, 3), np.int32)
    assert plain.download(empty).shape == (0, 3)
    buffer.free()
    buffer.free()
    with pytest.raises(ValueError, match="freed"):
        _ = buffer.ptr
    with pytest.raises(LaunchError, match="do not fit"):
        plain.empty(1 << 60, np.float64)


# ---- compiling ------------------------------------------------------------------------------------------


def test_compile_errors_name_file_and_line(plain: HostDevice) -> None:
    with pytest.raises(CompileError, match=r"'undeclared' was not declared|undeclared identifier") as caught:
        kernel(plain, "broken", "broken")
    assert caught.value.place == f"{KERNELS / 'host_broken.cu'}:5"
    with pytest.raises(CompileError, match="no kernel 'nothing'"):
        kernel(plain, "basics", "nothing")
    with pytest.raises(CompileError, match="No such file") as caught:
        plain.compile("spmv/nowhere.cu")
    assert caught.value.place == "spmv/nowhere.cu"


def test_a_warm_start_runs_no_compiler(plain: HostDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel(plain, "basics", "axpy")
    monkeypatch.setattr(compilers, "_identities", {})
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a compiler was run"))
    kernel(HostDevice(), "basics", "axpy")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
def test_fixtures_are_cuda(tmp_path: Path) -> None:
    def compile_with_nvcc(file: Path) -> str:
        relocatable = ["-rdc=true"] if uses_device_launch(str(file)) else []
        command = ["nvcc", "-cubin", "-arch=sm_90", *relocatable, f"-I{cuda_dir()}", str(file)]
        command += ["-DSPG_VALUE=float", "-DSPG_OFFSET=int"]
        done = subprocess.run(
            [*command, "-o", str(tmp_path / f"{file.stem}.cubin")], capture_output=True, text=True, timeout=120
        )
        return done.stdout + done.stderr

    files = [f for f in sorted(KERNELS.glob("host_*.cu")) if f.name != "host_broken.cu"]
    assert len(files) == 8
    with ThreadPoolExecutor(2) as pool:
        assert dict(zip(files, pool.map(compile_with_nvcc, files), strict=True)) == dict.fromkeys(files, "")


def test_no_compiler_is_shown_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    assert "CXX" in (host_compiler.available() or "")
    with pytest.raises(DeviceError, match="set CXX"):
        HostDevice()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "install one" in (host_compiler.available() or "")


def test_info(plain: HostDevice) -> None:
    info = plain.info()
    assert info.kind == plain.kind == "host"
    assert info.name
    assert info.arch == os.uname().machine
    assert info.memory_bytes > 1 << 28
    assert "++" in info.toolkit or "clang" in info.toolkit
    assert 0 < plain.free_bytes() <= info.memory_bytes
