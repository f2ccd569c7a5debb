"""What memory there is: of the machine, of control groups, of ulimit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spgraph_bench import memory, recipes
from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems import filled_options, get_problem
from spgraph_bench.problems.exact import row_sums
from spgraph_bench.runner import worker
from spgraph_bench.runner.figures import analysis_bytes, run_bytes
from spgraph_bench.stats import row_stats
from spgraph_bench.structure import analyse

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
GIB = 2**30


def _files(folder: Path, **content: str | int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


@pytest.fixture
def machine(tmp_path: Path) -> tuple[Path, Path]:
    """A machine of 8 GiB: its /proc and its folder of control groups."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    _files(proc, meminfo=f"MemTotal: 1 kB\nMemAvailable: {8 * 2**20} kB", vmstat="nr_free 1\noom_kill 3")
    _files(proc / "self", cgroup="", status="VmSize: 0 kB")
    groups.mkdir()
    return proc, groups


def _left(machine: tuple[Path, Path]) -> float:
    """In GiB, with the head-room."""
    return (memory.available_memory(*machine) + memory._HEADROOM) / GIB


def test_of_the_machine(machine: tuple[Path, Path]) -> None:
    assert _left(machine) == 8
    (machine[0] / "meminfo").unlink()
    assert memory.available_memory(*machine) == 1 << 62


def test_of_control_groups_of_version_2(machine: tuple[Path, Path]) -> None:
    proc, groups = machine
    (proc / "self/cgroup").write_text("0::/user/job\n")
    _files(groups / "user", memory__max=3 * GIB, memory__current=GIB, memory__stat="anon 1\ninactive_file 0")
    _files(groups / "user/job", memory__max="max", memory__current=5, memory__events="low 0\noom_kill 2")
    assert _left(machine) == 2
    (groups / "user/memory.stat").write_text(f"anon 1\ninactive_file {GIB // 2}\n")
    assert _left(machine) == 2.5
    (groups / "user/job/memory.max").write_text(f"{GIB}\n")
    assert 0.99 < _left(machine) < 1
    assert memory.oom_kills(*machine) == 5


def test_of_control_groups_of_version_1_and_of_a_container(machine: tuple[Path, Path]) -> None:
    proc, groups = machine
    (proc / "self/cgroup").write_text("5:cpu,cpuacct:/x\n4:memory:/docker/0123\n0::/\n")
    _files(  # the container sees its group as the root
        groups / "memory",
        memory__limit_in_bytes=2 * GIB,
        memory__usage_in_bytes=GIB,
        memory__stat=f"total_inactive_file {GIB // 4}",
        memory__oom_control="oom_kill_disable 0\noom_kill 1",
    )
    assert _left(machine) == 1.25
    assert memory.oom_kills(*machine) == 4
    (groups / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert _left(machine) == 8


def test_of_ulimit() -> None:
    code = "from spgraph_bench.memory import available_memory; print(available_memory())"
    for kind, limit in (("v", 2**20), ("d", 2**19)):
        shell = f"ulimit -{kind} {limit} && exec {sys.executable} -c '{code}'"
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, env=env, check=True)
        assert limit * 1024 * 0.6 < int(done.stdout) < limit * 1024


def test_a_need_is_reported_with_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 2**29)
    memory.require_memory(2**29, "this", None)
    with pytest.raises(InputError, match=r"^a.mtx: this needs 1\.61 GB of memory, 537 MB are available"):
        memory.require_memory(3 * 2**29, "this", "a.mtx")


# ---- what stages say that they take ----------------------------------------------------------------------


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module", params=["uniform:n=200000,degree=1", "rmat:scale=14"])
def matrix(request: pytest.FixtureRequest) -> Matrix:
    made = recipes.make(request.param)
    return replace(made, csr=replace(made.csr, symmetric=False))


def test_the_analysis_takes_what_it_says(matrix: Matrix) -> None:
    import scipy.sparse  # noqa: F401 (its import is not the analysis's)

    peak = _peak(lambda: (row_stats(matrix.csr), analyse(matrix.csr)))
    assert 0.3 * analysis_bytes(matrix.csr) < peak < analysis_bytes(matrix.csr)


@pytest.mark.parametrize(
    "name", ["spmv", "spmv-transposed", "spmm", "pagerank", "bfs", "bfs-batch", "sssp", "cc", "bc", "bc-batch"]
)
def test_inputs_and_oracle_take_what_they_say(name: str, matrix: Matrix) -> None:
    import scipy.sparse.csgraph  # noqa: F401 (its import is not the oracle's)

    options = {"sources": 1} if name in ("bfs", "bfs-batch", "sssp", "bc", "bc-batch") else {}
    problem = get_problem(name, options)
    dtype = np.dtype(problem.dtypes[0])

    def make() -> object:
        inputs = problem.inputs(matrix, dtype, 1, **options)
        return inputs, problem.oracle(matrix, inputs, dtype, **options)

    make()  # what is imported and kept on the first call
    printed = run_bytes(name, matrix.csr, filled_options(problem, options))
    assert 0.05 * printed < _peak(make) < printed


def test_transposed_sums_take_one_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)
    csr = recipes.make("uniform:n=500000,degree=24").csr
    ones = np.ones((csr.rows, 1))
    assert _peak(lambda: row_sums(csr, ones, np.dtype("float32"), 1, 8, True)) < 160e6


def test_a_worker_that_the_kernel_ended_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = worker.ProcessWorker("host", {})
    assert made.call("hello")["kind"] == "host"
    score = Path(f"/proc/{made._process.pid}/oom_score_adj")
    assert not score.exists() or int(score.read_text()) >= 500, "the parent may be ended in its place"
    counted = made._child.oom_kills
    monkeypatch.setattr(worker, "oom_kills", lambda: counted + 1)
    made._process.kill()
    with pytest.raises(worker.WorkerDiedError, match=r"ended by the kernel: out of memory \(.* available now"):
        made.call("hello")
    made.close()


@pytest.fixture
def one_gigabyte() -> Iterator[list[str]]:
    """What to put before a command so that it has 1 GB: a control group, else a limit on its addresses."""
    name = f"spgraph-test-{os.getpid()}"
    for folder, file in (
        (f"/sys/fs/cgroup/memory/{name}", "memory.limit_in_bytes"),
        (f"/sys/fs/cgroup/{name}", "memory.max"),
    ):
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            Path(folder, file).write_text(str(GIB))
            yield ["bash", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "-"]
            return
        except OSError:
            pass
        finally:
            for _ in range(50):  # its last process may not be gone yet
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.1)
    yield ["bash", "-c", f'ulimit -v {GIB // 1024} && exec "$@"', "-"]


@pytest.mark.parametrize(
    "args",
    [
        ("info", "far.txt"),
        ("bench", "spmm", "uniform:n=600000,degree=2", "--device", "host", "--no-save"),
        ("bench", "spmv", "chain:n=6000000,values=ones", "--device", "host", "--no-save"),
    ],
)
def test_nothing_is_ended_where_memory_is_1_gb(args: tuple[str, ...], one_gigabyte: list[str], tmp_path: Path) -> None:
    (tmp_path / "far.txt").write_text("0 1\n1 25000000\n")
    done = subprocess.run(
        [*one_gigabyte, sys.executable, "-m", "spgraph_bench", *args],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert " GB of memory, " in done.stderr
