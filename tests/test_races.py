"""The race detector: what it must find and must accept, and planted faults in copies of the real kernels.

`make test-races` runs the host battery itself under the detector, where nothing may be found.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import battery, matrix
from graph_battery import graphs

from spgraph_bench.device import host_compiler
from spgraph_bench.device.host import HostDevice, HostModule
from spgraph_bench.errors import DeviceError, LaunchError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.paths import cuda_dir
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.base import filled_options
from spgraph_bench.runner.prepare import prepare
from spgraph_bench.variants import get_variant

CASES = str(Path(__file__).resolve().parent / "kernels" / "race_cases.cu")
SEEDS = [0, 1, 2, 7]

pytestmark = pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))


@pytest.fixture
def detecting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPGRAPH_HOST_SANITIZE", "race")


@pytest.fixture(params=SEEDS)
def device(request: pytest.FixtureRequest, detecting: None) -> HostDevice:
    return HostDevice(seed=request.param)


def _zeros(device: HostDevice, *arrays: tuple[int, str]) -> list[Any]:
    return [device.upload(np.zeros(n, dtype)) for n, dtype in arrays]


def _go(device: HostDevice, name: str, grid: int, block: int, *args: Any, **how: Any) -> None:
    defines = how.pop("defines", None)
    device.compile(CASES, defines).kernel(name)(grid, block, *args, **how)
    device.synchronize()


RACES: Mapping[str, tuple[int, int, tuple[tuple[int, str], ...], tuple[str, ...]]] = {
    # name: grid, block, arrays, words of the message
    "plain_and_atomic": (1, 64, ((1, "i4"),), ("count[0]", "a plain write", "an atomic", "nothing orders")),
    "no_barrier": (1, 64, ((64, "i4"),), ("shared tile[", "a plain write", "a plain read")),
    "shuffle_only": (1, 32, ((32, "i4"),), ("shared tile[", "a plain write", "a plain read")),
    "last_block": (4, 32, ((4, "f4"), (1, "u4"), (1, "f4")), ("partial[", "block (")),
    "through_read_only": (1, 32, ((32, "f4"), (32, "f4")), ("data[", "read-only cache", "never writes")),
    "child_beside_parent": (1, 1, ((1, "i4"),), ("data[0]", "grandchild", "child_beside_parent")),
}


@pytest.mark.parametrize("name", RACES)
def test_found_in_every_order(device: HostDevice, name: str) -> None:
    grid, block, arrays, words = RACES[name]
    with pytest.raises(LaunchError) as caught:
        _go(device, name, grid, block, *_zeros(device, *arrays))
    for word in words:
        assert word in str(caught.value)
    assert "docs/races.md" in str(caught.value)


def test_both_lines_the_array_and_the_index_are_reported(detecting: None) -> None:
    device = HostDevice()
    source = Path(CASES).read_text().splitlines()
    line = next(i for i, text in enumerate(source, 1) if "total[3] +=" in text)
    with pytest.raises(LaunchError, match=r"plain_sum: data race on total\[3\]: a plain write at") as caught:
        _go(device, "plain_sum", 4, 64, np.int32(250), *_zeros(device, (250, "f4"), (4, "f4")))
    assert str(caught.value).count(f"race_cases.cu:{line} ") == 2
    assert caught.value.place == f"{CASES}:{line}"
    # The next launch starts afresh.
    _go(device, "halves", 1, 32, *_zeros(device, (32, "u2")))


def test_a_promise_to_nvcc_that_is_not_kept(detecting: None) -> None:
    device = HostDevice()
    x, y = _zeros(device, (32, "f4"), (32, "f4"))
    _go(device, "through_restrict", 1, 32, x, y)
    with pytest.raises(LaunchError, match="const __restrict__"):
        _go(device, "through_restrict", 1, 32, x, x)


def test_a_fence_of_the_block_does_not_reach_another_block(detecting: None) -> None:
    device = HostDevice()
    with pytest.raises(LaunchError, match=r"data\[0\]"):
        _go(device, "block_fence", 2, 1, *_zeros(device, (2, "f4"), (1, "u4")))


def test_accepted_in_every_order(device: HostDevice) -> None:
    _go(device, "last_block", 4, 32, *_zeros(device, *RACES["last_block"][2]), defines={"FENCES": ""})
    _go(device, "halves", 1, 32, *_zeros(device, (32, "u2")))
    _go(device, "ordered", 1, 64, *_zeros(device, (1, "i4"), (2, "u4"), (64, "i4")))
    _go(device, "over_the_grid", 4, 64, *_zeros(device, (256, "i4"), (1, "u4"), (256, "i4")), cooperative=True)
    _go(device, "generations", 1, 32, *_zeros(device, (32, "i4"), (32, "i4")))


def test_a_claim_that_two_win_is_seen_in_some_order() -> None:
    lost = 0
    for seed in range(1, 9):
        device = HostDevice(seed=seed)
        owner, winners = device.upload(np.full(1, -1, np.int32)), device.upload(np.zeros(1, np.int32))
        _go(device, "lost_claim", 1, 64, owner, winners)
        lost += int(device.download(winners)[0]) > 1
    assert lost


def test_races_and_addresses_are_not_watched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPGRAPH_HOST_SANITIZE", "address,race")
    with pytest.raises(DeviceError, match="both address and race"):
        HostDevice()


# ---- planted faults --------------------------------------------------------------------------------------


class Planted(HostDevice):
    """A host device whose kernels come from another folder."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        super().__init__(seed)
        self._folder = folder

    def compile(self, source: str, defines: Mapping[str, str] | None = None) -> HostModule:
        return super().compile(str(self._folder / source), defines)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.fixture
def copy(copies: Path) -> Iterator[Path]:
    folder = copies / "cuda"
    shutil.copytree(cuda_dir(), folder)
    yield folder
    shutil.rmtree(folder)


def _plant(folder: Path, file: str, right: str, wrong: str) -> None:
    text = (folder / file).read_text()
    assert text.count(right) >= 1, f"{file} has no {right!r} any more"
    (folder / file).write_text(text.replace(right, wrong))


def _run(device: HostDevice, problem: str, variant: str, a: CSR, **params: Any) -> np.ndarray:
    of, chosen, whole = get_problem(problem), get_variant(problem, variant), matrix(a)
    dtype = np.dtype(of.dtypes[0])
    options = filled_options(of, {})
    inputs = {"sources": np.zeros(1, np.int32)} if problem == "bfs" else of.inputs(whole, dtype, 1, **options)
    packed = get_format(chosen.format).pack(a, dtype, np.dtype("int32"))
    done = prepare(device, chosen, packed, inputs, of.output_arrays(whole, dtype), params, options=options).launch
    if problem == "bfs":
        done.select(0)
    done.reset()
    done.run()
    device.synchronize()
    return done.output()


def _input(problem: str) -> CSR:
    return graphs()["skewed"][0] if problem in ("bfs", "cc", "pagerank") else battery()["hub-5000"]


MUTANTS = {
    "atomicAdd made +=": (
        "spmv",
        "coo-atomic",
        "spmv/coo_atomic.cu",
        "atomicAdd(y + row[e], val[e] * x[col[e]])",
        "y[row[e]] += val[e] * x[col[e]]",
    ),
    "atomicCAS made load and store": (
        "bfs",
        "frontier",
        "bfs/frontier.cu",
        "atomicCAS(level + w, -1, k + 1) == -1",
        "(level[w] == -1 && (level[w] = k + 1))",
    ),
    "atomicMin made load and store": (
        "cc",
        "hook",
        "cc/hook.cu",
        "atomicMin(parent + high, min(a, b))",
        "parent[high] = min(parent[high], min(a, b))",
    ),
    "atomicOr made load and store": (
        "bfs",
        "persistent",
        "graph/levels.cuh",
        "!(atomicOr(word, bit) & bit)",
        "(*word |= bit, true)",
    ),
    "relaxed load made plain": ("bfs", "push", "bfs/push.cu", "load_grid(level + v) != k", "level[v] != k"),
    "load through .nc": ("bfs", "frontier", "bfs/frontier.cu", "load_grid(level + w) == -1", "__ldg(level + w) == -1"),
    "release made relaxed": (
        "bfs",
        "persistent",
        "common/ordered.cuh",
        "SPG_ORDERED_ADD(add_release, release, gpu)",
        "SPG_ORDERED_ADD(add_release, relaxed, gpu)",
    ),
    "acquire made relaxed": (
        "bfs",
        "persistent",
        "common/ordered.cuh",
        "SPG_ORDERED_LOAD(load_acquire, acquire, gpu)",
        "SPG_ORDERED_LOAD(load_acquire, relaxed, gpu)",
    ),
    "fences removed": ("spmv", "csr-adaptive", "spmv/adaptive.cuh", "__threadfence();", "{}"),
    "volatile removed": (
        "spmv",
        "binned-fused",
        "spmv/binned_fused.cu",
        "*const_cast<volatile value_t*>(sum[first + j])",
        "*sum[first + j]",
    ),
    "barrier removed": (
        "cc",
        "hook",
        "common/ordered.cuh",
        "        then();\n    }\n    __syncthreads();\n}",
        "        then();\n    }\n}",
    ),
    "syncwarp removed": (
        "pagerank",
        "pull-hubs",
        "common/marked_rows.cuh",
        "        __syncwarp();\n        row += all;",
        "        row += all;",
    ),
}


@pytest.mark.parametrize("fault", MUTANTS)
def test_faults_planted_in_real_kernels_are_found(copy: Path, detecting: None, fault: str) -> None:
    problem, variant, file, right, wrong = MUTANTS[fault]
    _plant(copy, file, right, wrong)
    with pytest.raises(LaunchError, match=r"nothing orders them|never writes"):
        _run(Planted(copy), problem, variant, _input(problem))


SPLIT = {
    # No data race: relaxed load and relaxed store in place of an atomic.
    "a counter": (
        "bfs",
        "frontier",
        "bfs/frontier.cu",
        "out[atomicAdd(found, 1)] = w;",
        "{ const int at = load_grid(found); store_grid(found, at + 1); out[at] = w; }",
    ),
    "a sum": (
        "spmv",
        "coo-atomic",
        "spmv/coo_atomic.cu",
        "atomicAdd(y + row[e], val[e] * x[col[e]])",
        "store_grid(y + row[e], load_grid(y + row[e]) + val[e] * x[col[e]])",
    ),
}


@pytest.mark.parametrize("fault", SPLIT)
def test_split_atomics_show_in_some_order(copy: Path, fault: str) -> None:
    problem, variant, file, right, wrong = SPLIT[fault]
    a = graphs()["ternary-tree"][0]
    expected = _run(Planted(copy), problem, variant, a)
    _plant(copy, file, right, wrong)
    _plant(copy, file, '#include "', '#include "../common/ordered.cuh"\n#include "')
    wrong_ones = 0
    for seed in range(1, 9):
        output = _run(Planted(copy, seed), problem, variant, a)
        wrong_ones += not np.allclose(output, expected, rtol=1e-3)
    assert wrong_ones
