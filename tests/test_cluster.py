"""Sweeps over several workers: what is given to whom, what becomes of lost workers, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from commands import spgraph

from spgraph_bench.cli.main import run
from spgraph_bench.errors import DeviceError, UsageError
from spgraph_bench.provenance import code_hash
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import read_records, to_json_lines
from spgraph_bench.sweep.config import read_config
from spgraph_bench.sweep.journal import Journal
from spgraph_bench.sweep.local import LATER, Ended
from spgraph_bench.sweep.pinning import CORES, shares
from spgraph_bench.sweep.plan import Plan, make_plan
from spgraph_bench.sweep.station import unmeasured

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.sweep import cluster, remote
from spgraph_bench.sweep.crew import Crew, find_workers
from spgraph_bench.sweep.local_cluster import gpu_environments
from spgraph_bench.sweep.remote import Answer, Group, Probe

INFO = DeviceInfo("host", "one", "", 0, 0, 0)
QUICK = ("--device", "auto", "--time-limit", "0.01")
PLUGINS = Path(__file__).parent / "plugins"


@pytest.mark.parametrize(
    ("cores", "workers", "each", "parts"),
    [
        (8, 2, None, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (5, 2, None, [[0, 1], [2, 3]]),
        (8, 3, 1, [[0], [1], [2]]),
        (2, 3, None, [[], [], []]),
        (4, 2, 3, [[], []]),
    ],
)
def test_no_core_is_given_to_two_workers(cores: int, workers: int, each: int | None, parts: list[list[int]]) -> None:
    assert shares(list(range(cores)), workers, each) == parts


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_a_worker_keeps_to_its_cores() -> None:
    core = sorted(os.sched_getaffinity(0))[-1]
    script = (
        "import os; from spgraph_bench.sweep.pinning import dask_setup as f; f(None); print(os.sched_getaffinity(0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, CORES: str(core)}, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"{{{core}}}", done.stderr


# ---- the driver, with workers that do what a script says


class _Future:
    def __init__(self, key: str, outcome: Answer | Exception | None) -> None:
        self.key, self._outcome = key, outcome
        self.status = "cancelled" if outcome is None else "error" if isinstance(outcome, Exception) else "finished"

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self._outcome

    def exception(self) -> Any:
        return self._outcome

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        call(self)


class KilledWorker(Exception):  # noqa: N818 (as Dask calls it, and it is known by its name)
    """A worker died with a task."""


def _workers(addresses: list[str]) -> Any:
    return {"workers": {address: {"resources": {"GPU": 1}} for address in addresses}}


class _Client:
    """A cluster of two workers. `script` says of each task in turn how it ends."""

    status = "running"
    begun: Any = None

    def __init__(self, script: Callable[[Group, int], Answer | Exception | None]) -> None:
        self._script, self.given = script, []
        self.given: list[Group]
        self.there = ["a", "b"]

    def scheduler_info(self, n_workers: int) -> Any:
        return _workers(self.there)

    def subscribe_topic(self, topic: str, handler: Any) -> None:
        self.handler = handler

    def unsubscribe_topic(self, topic: str) -> None: ...

    def cancel(self, futures: Any, force: bool) -> None: ...

    def get_metadata(self, keys: list[str], default: Any) -> Any:
        return self.begun or default

    def submit(self, function: Any, group: Group, **about: Any) -> _Future:
        self.given.append(group)
        self.workers = about["workers"]
        return _Future(group.name, self._script(group, len(self.given)))


def _records(group: Group, cells: int | None = None) -> tuple[tuple[str, str, str], ...]:
    """Records of the first `cells` cells of a group, as a worker gives them."""
    made = [
        (
            block.key,
            block.cell_key(cell),
            to_json_lines([unmeasured(block, cell, INFO, "ok", "", group.run_ids[block.key])]),
        )
        for block in group.blocks
        for cell in block.cells
    ]
    return tuple(made[:cells])


def _plan(tmp_path: Path, matrices: str = '"grid:n=4..6"') -> Plan:
    path = tmp_path / "c.toml"
    run = f'[[run]]\nproblem = ["spmv", "cc"]\nmatrix = {matrices}\nvariant = ["csr-scalar", "ell", "hook"]\n'
    path.write_text(f'about = "x"\n{run}')
    return make_plan(read_config(path).entries, "host")


class _Swept:
    """What came of a sweep with a scripted cluster."""

    def __init__(self, tmp_path: Path, script: Callable[[Group, int], Answer | Exception | None]) -> None:
        self.plan = _plan(tmp_path)
        self.client = _Client(script)
        self.warnings: list[str] = []
        self.ended: list[Ended] = []
        probes = {a: Probe(a, "", code_hash(), asdict(INFO)) for a in self.client.there}
        self.crew = Crew(self.client, "host", {}, probes)  # type: ignore[arg-type]
        self.path = tmp_path / "s.jsonl"

    def go(self) -> list[Record]:
        with Journal(self.path) as journal:
            cluster.sweep_on_cluster(self.plan, journal, self.crew, self.ended.append, warn=self.warnings.append)
        records = read_records(self.path)
        cells = [str(r.sweep["cell"]) for r in records]
        assert len(set(cells)) == len(cells) == self.plan.cells, "lost, or there twice"
        assert len(self.ended) == len(self.plan.blocks)
        return records


def test_blocks_of_one_matrix_go_together_and_the_largest_first(tmp_path: Path) -> None:
    swept = _Swept(tmp_path, lambda group, number: Answer("a", "a", records=_records(group)))
    swept.go()
    assert [[(b.input.name, b.problem) for b in group.blocks] for group in swept.client.given] == [
        [(f"grid-{n}", "spmv"), (f"grid-{n}", "cc")] for n in (6, 5, 4)
    ]


@pytest.mark.parametrize("how", ["killed", "lost", "cancelled"])
def test_what_a_lost_worker_did_not_measure_goes_to_another(how: str, tmp_path: Path) -> None:
    swept: _Swept

    def script(group: Group, number: int) -> Answer | Exception | None:
        if number != 1:
            return Answer("b", "b", records=_records(group))
        for key, cell, line in _records(group, 1):  # it said so before it died
            swept.client.handler((0, {"kind": "record", "block": key, "cell": cell, "line": line, "by": "a"}))
        return {"killed": KilledWorker("x"), "lost": Answer("b", "b", lost_by="a"), "cancelled": None}[how]

    swept = _Swept(tmp_path, script)
    swept.crew.deaths.append("worker process 7 was killed by signal 9")
    records = swept.go()
    assert [r.sweep["worker"] for r in records].count("a") == 1
    after = {(r.problem, r.variant): r.sweep.get("after", "") for r in records if r.matrix["name"] == "grid-6"}
    if how == "cancelled":
        assert not any(after.values())
        return
    assert "signal 9" in after["spmv", "ell"]
    assert not after["spmv", "csr-scalar"]
    assert not after["cc", "hook"]
    runs = {(r.problem, r.variant): r.run for r in records if r.matrix["name"] == "grid-6"}
    assert runs["spmv", "ell"] != runs["spmv", "csr-scalar"], "a table of two workers"
    assert "while it measured spmv grid-6" in swept.warnings[0]


def test_a_cell_that_kills_every_worker_is_a_failure_and_the_only_one(tmp_path: Path) -> None:
    def script(group: Group, number: int) -> Answer | Exception:
        for place, block in enumerate(group.blocks):
            if block.input.name == "grid-5" and any(cell.variant == "ell" for cell in block.cells):
                return KilledWorker(str(place))
        return Answer("a", "a", records=_records(group))

    swept = _Swept(tmp_path, script)
    records = swept.go()
    bad = [(r.matrix["name"], r.problem, r.variant) for r in records if r.status != "ok"]
    assert bad == [("grid-5", "spmv", "ell")]
    assert next(r.reason for r in records if r.status == "failed").startswith("its worker was lost")


def test_a_worker_whose_device_fails_gets_nothing_more(tmp_path: Path) -> None:
    swept: _Swept

    def script(group: Group, number: int) -> Answer:
        if number == 1:
            return Answer("a", "a", broken="no GPU")
        assert number == 2 or swept.client.workers == ["b"]  # two are given out before the first answers
        return Answer("b", "b", records=_records(group))

    swept = _Swept(tmp_path, script)
    assert {r.status for r in swept.go()} == {"ok"}
    assert "worker a cannot measure: no GPU" in swept.warnings[0]
    swept.path.unlink()
    del swept.crew.probes["b"]
    swept.client.given.clear()
    with pytest.raises(DeviceError, match="no worker's device"):
        swept.go()


def test_a_task_that_fails_by_itself_is_records(tmp_path: Path) -> None:
    def script(group: Group, number: int) -> Answer | Exception:
        return ValueError("ours") if number == 1 else Answer("a", "a", records=_records(group))

    swept = _Swept(tmp_path, script)
    assert {r.reason for r in swept.go()} == {"", "internal error: ValueError: ours"}


def test_a_lost_scheduler_ends_the_sweep_and_keeps_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Dask: what was given out is cancelled, a new task is an error, and the client is closed in the end."""
    monkeypatch.setattr(cluster, "_LOOK_S", 0.0)
    swept: _Swept

    def script(group: Group, number: int) -> Answer | None:
        assert swept.client.status == "running", "a closed client takes no tasks"
        if number < 3:
            return Answer("a", "a", records=_records(group))
        swept.client.status = "closed"
        return None

    swept = _Swept(tmp_path, script)
    with pytest.raises(DeviceError, match="the scheduler is lost"):
        swept.go()
    swept.client = _Client(lambda group, number: Answer("a", "a", records=_records(group)))
    swept.crew.client = swept.client  # type: ignore[assignment]
    swept.ended.clear()
    with Journal(swept.path) as journal:
        assert 0 < len(journal.done) < swept.plan.cells
        cluster.sweep_on_cluster(swept.plan, journal, swept.crew, swept.ended.append)
        assert len(journal.done) == swept.plan.cells


@pytest.mark.parametrize("problem", ["the scheduler is lost", "no worker is left"])
def test_a_sweep_does_not_wait_for_ever(problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK_S", "LOST_S", "WORKERS_S"):
        monkeypatch.setattr(cluster, name, 0.0)
    monkeypatch.setattr(_Future, "done", lambda future: False)
    swept = _Swept(tmp_path, lambda group, number: None)
    if problem == "no worker is left":
        swept.client.there = []
    else:
        monkeypatch.setattr(swept.client, "scheduler_info", lambda n_workers: 1 / 0)
    with pytest.raises(DeviceError, match=problem):
        swept.go()


@pytest.mark.parametrize("begun", [True, False])
def test_a_task_whose_only_worker_is_gone_is_taken_back(
    begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker a cannot measure, so tasks are for b alone; b comes back under another address."""
    monkeypatch.setattr(cluster, "_LOOK_S", 0.0)
    swept: _Swept
    stuck: list[str] = []

    def script(group: Group, number: int) -> Answer:
        if number == 1:
            return Answer("a", "a", broken="no GPU")
        if number == 3:
            assert swept.client.workers == ["b"]
            swept.client.there = ["a", "c"]
            swept.client.begun = {"worker": "b", "process": 7} if begun else None
            stuck.append(group.name)
        return Answer("c", "c", records=_records(group))

    monkeypatch.setattr(_Future, "done", lambda future: future.key not in stuck)
    swept = _Swept(tmp_path, script)
    assert {record.status for record in swept.go()} == {"ok"}
    assert ("worker b was lost" in " ".join(swept.warnings)) == begun


def test_a_worker_that_leaves_before_it_says_what_it_is_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task is for it alone, so Dask would keep that forever."""
    client = _Client(lambda group, number: None)
    looks = iter((["a", "b"], ["b"]))
    monkeypatch.setattr(client, "scheduler_info", lambda n_workers: _workers(next(looks, ["b"])))
    monkeypatch.setattr(client, "submit", lambda function, *args, **about: _Future(about["workers"][0], None))
    monkeypatch.setattr(
        client, "gather", lambda futures: {a: Probe(a, "", code_hash(), asdict(INFO)) for a in futures}, False
    )
    monkeypatch.setattr(_Future, "done", lambda future: future.key == "b")
    crew = Crew(client, "host", {})  # type: ignore[arg-type]
    find_workers(crew, 2)
    assert list(crew.probes) == ["b"]


def test_rows_that_join_those_of_an_earlier_session_say_so(tmp_path: Path) -> None:
    swept = _Swept(tmp_path, lambda group, number: Answer("a", "a", records=_records(group)))
    swept.go()
    lines = swept.path.read_text().splitlines()
    swept.path.write_text("".join(f"{line}\n" for line in lines[1:]))
    swept.ended.clear()
    with Journal(swept.path) as journal:
        cluster.sweep_on_cluster(swept.plan, journal, swept.crew, swept.ended.append)
    records = read_records(swept.path)
    assert [LATER in record.notes for record in records] == [False] * (len(lines) - 1) + [True]
    assert records[-1].run == Record.from_json(json.loads(lines[0])).run


def test_a_record_that_comes_late_is_not_kept_beside_that_of_another_worker(tmp_path: Path) -> None:
    """The worker was thought lost; the other one has another device, by whose name the journal tells records apart."""
    swept: _Swept
    other = replace(INFO, name="another")

    def script(group: Group, number: int) -> Answer:
        for block in group.blocks:
            for cell in block.cells:
                line = to_json_lines([unmeasured(block, cell, other, "ok", "", "x")])
                swept.client.handler(
                    (0, {"kind": "record", "block": block.key, "cell": block.cell_key(cell), "line": line, "by": "b"})
                )
        return Answer("a", "a", records=_records(group))

    swept = _Swept(tmp_path, script)
    swept.crew.probes["b"] = Probe("b", "", code_hash(), asdict(other))
    assert {record.sweep["worker"] for record in swept.go()} == {"b"}


def test_the_cause_is_that_of_the_process_that_was_lost() -> None:
    crew = Crew(
        None, "host", {}, deaths=["worker process 7 was killed by signal 9", "worker process 8 exited with status 1"]
    )  # type: ignore[arg-type]
    assert crew.cause("worker a was lost", 7) == "worker a was lost: worker process 7 was killed by signal 9"
    assert crew.cause("its worker was lost").endswith("worker process 8 exited with status 1")
    assert crew.cause("worker b was lost", 9) == "worker b was lost"


# ---- the command


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("--gpus", "0", "--workers", "2"), 2, "two ways"),
        (("--workers", "2", "--in-process"), 2, "--in-process does without"),
        (("--workers", "2", "--device", "cuda"), 2, "does not go with --device cuda"),
        (("--scheduler", "tcp://127.0.0.1:1", "--threads", "2"), 2, "--threads is for"),
        (("--workers", "2", "--threads", "4096"), 2, "2 workers of 4096 cores each: there are"),
        (("--tls-ca", "x"), 2, "TLS options are for --scheduler"),
        (("--scheduler", "here"), 2, "not an address"),
        (("--scheduler", "tcp://10.0.0.1:8786"), 2, "not encrypted"),
        (("--scheduler", "tls://10.0.0.1:8786", "--tls-ca", "x"), 2, "three files"),
        (("--scheduler", "tls://10.0.0.1:8786"), 2, "needs certificates"),
        (
            ("--scheduler", "tls://10.0.0.1:8786", "--tls-ca", "x", "--tls-cert", "y", "--tls-key", "z"),
            2,
            "no such file",
        ),
    ],
)
def test_what_is_refused(args: tuple[str, ...], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = () if "--device" in args else ("--device", "auto")
    assert run(["sweep", "grid", "--variant", "csr-scalar", *options, *args]) == status
    err = capsys.readouterr().err
    assert message in err
    assert "remedy" in err


@pytest.mark.parametrize("package", ["distributed", "cryptography"])
def test_a_package_that_is_missing_is_named(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "cryptography"] if package == "cryptography" else []:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert run(["sweep", "grid:n=4", "--variant", "csr-scalar", "--workers", "1"]) == 2
    assert "remedy: pip install 'spgraph[cluster]'" in capsys.readouterr().err


def test_a_dry_run_is_for_the_device_of_the_workers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also on a machine that has a GPU, which "auto" would take."""
    from spgraph_bench.device import probe

    monkeypatch.setattr(probe, "choose_device", lambda wanted: pytest.fail(f"chooses {wanted}"))
    assert run(["sweep", "grid:n=4", "--variant", "csr-scalar", "--workers", "2", "--dry-run"]) == 0
    assert "1 cell in 1 block; about" in capsys.readouterr().out


def test_gpus_that_there_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench.device import probe

    monkeypatch.setattr(probe, "find_driver", lambda: None)
    with pytest.raises(DeviceError):
        gpu_environments("all")
    gpus = tuple(probe.Gpu("H200", f"GPU-{index}", index=index) for index in range(2))
    monkeypatch.setattr(probe, "find_driver", lambda: probe.Driver("1", "13.0", gpus))
    assert [env["CUDA_VISIBLE_DEVICES"] for env in gpu_environments("all")] == ["GPU-0", "GPU-1"]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in gpu_environments("1")] == ["GPU-1"]
    for wrong in ("2", "0,0", "x", ""):
        with pytest.raises(UsageError):
            gpu_environments(wrong)


def _sweep(*args: str, cwd: Path, plugin: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spgraph_bench", "sweep", *args, *QUICK],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        env={**os.environ, "SPGRAPH_PLUGINS": str(PLUGINS / plugin), "PYTHONPATH": str(PLUGINS.parents[1])},
    )


def test_a_real_worker_measures_on_its_own_cores_and_says_nothing_else(tmp_path: Path) -> None:
    for name in ("multiprocessing", "distributed", "numpy", "socket"):  # of a download folder: never imported
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')\n")
    args = ("grid:n=4..5", "--workers", "1", "--threads", "1", "-o", "s.jsonl", "--variant", "csr-scalar")
    done = _sweep(*args, cwd=tmp_path, plugin="deadly.py")
    assert done.returncode == 0, done.stderr
    assert "distributed" not in done.stderr
    records = read_records(tmp_path / "s.jsonl")
    assert [(r.matrix["name"], r.status, r.sweep["worker"]) for r in records] == [
        ("grid-5", "ok", "0"),
        ("grid-4", "ok", "0"),
    ]
    assert {r.environment["cores"] for r in records} == {1}
    assert not (tmp_path / "imported").exists()


def test_a_cluster_that_is_there_already(tmp_path: Path) -> None:
    """Its scheduler and worker run in this process: what differs from --workers is how they are reached."""
    from distributed import LocalCluster

    args = ("grid:n=4", "--variant", "csr-scalar", "--device", "host", "-o", "s.jsonl")
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", resources={"GPU": 1}, dashboard_address=None
    ) as there:
        done = spgraph("sweep", *args, "--scheduler", there.scheduler_address, cwd=tmp_path)
        remote.close_station()
    assert done.returncode == 0, done.stderr
    assert [r.status for r in read_records(tmp_path / "s.jsonl")] == ["ok"]


@pytest.mark.slow
def test_a_real_worker_that_is_killed(tmp_path: Path) -> None:
    args = ("grid:n=4", "--workers", "1", "-o", "s.jsonl", "--variant", "csr-scalar", "--variant", "deadly")
    done = _sweep(*args, "--variant", "scipy", cwd=tmp_path, plugin="deadly.py")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "distributed" not in done.stderr
    records = {r.variant: r for r in read_records(tmp_path / "s.jsonl")}
    assert {name: r.status for name, r in records.items()} == {"csr-scalar": "ok", "scipy": "ok", "deadly": "failed"}
    assert "killed by signal 9" in records["deadly"].reason
    assert "killed by signal 9" in records["scipy"].sweep["after"]
