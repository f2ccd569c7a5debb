"""The runner: statuses, watchdog, crashes, interrupts, resumption. On the host device, and on a GPU."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import commands
import pytest

from spgraph_bench.results.record import Record

PLUGIN = Path(__file__).parent / "plugins" / "faulty.py"
# Alone on the GPU: kernels that never return or kill their context, and watchdogs of seconds.
DEVICES = ["host", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.gpu_alone])]


def spgraph(*args: str, plugin: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1"}
    if plugin:
        environment["SPGRAPH_PLUGINS"] = str(PLUGIN)
    return subprocess.run(
        [sys.executable, "-m", "spgraph_bench", *args], capture_output=True, text=True, timeout=timeout, env=environment
    )


def bench(device: str, *args: str, **more: object) -> tuple[dict[str, Record], subprocess.CompletedProcess[str]]:
    done = spgraph("bench", "spmv", "--device", device, "--no-save", "--json", "--time-limit", "0.1", *args, **more)  # type: ignore[arg-type]
    assert "Traceback" not in done.stderr
    records = [Record.from_json(json.loads(line)) for line in done.stdout.splitlines()]
    return {r.variant: r for r in records}, done


@pytest.mark.parametrize("device", DEVICES)
def test_faulty_kernels_are_wrong_and_the_run_goes_on(device: str) -> None:
    records, done = bench(
        device,
        "grid:n=12",
        "--variant",
        "csr-scalar",
        "--variant",
        "faulty-short",
        "--variant",
        "faulty-unwritten",
        "--variant",
        "scipy*",
    )
    assert done.returncode == 1
    assert records["csr-scalar"].status == "ok"
    assert records["faulty-short"].status == "wrong"
    assert not records["faulty-short"].samples
    assert records["faulty-unwritten"].status == "wrong"
    assert "never written" in records["faulty-unwritten"].reason
    assert "row 7" in records["faulty-unwritten"].reason
    libraries = [r for r in records.values() if r.where == "cpu"]
    assert libraries
    assert all(len(s.times_ms) >= 6 for r in libraries for s in r.samples)


@pytest.mark.parametrize("device", DEVICES)
def test_a_kernel_that_never_returns_fails_after_the_watchdog(device: str) -> None:
    records, done = bench(
        device,
        "grid:n=12",
        "--watchdog",
        "3",
        "--variant",
        "csr-scalar",
        "--variant",
        "faulty-hang",
        "--variant",
        "scipy*",
    )
    assert done.returncode == 1
    assert records["faulty-hang"].status == "failed"
    assert records["faulty-hang"].reason == "no answer in 3 s"
    others = [r for r in records.values() if r.variant != "faulty-hang"]
    assert len(others) >= 2
    assert all(r.status == "ok" for r in others)


@pytest.mark.parametrize("device", DEVICES)
def test_a_kernel_that_kills_its_worker_fails_alone(device: str) -> None:
    records, done = bench(
        device,
        "grid:n=12",
        "--variant",
        "csr-scalar",
        "--variant",
        "faulty-wild",
        "--variant",
        "faulty-host",
        "--variant",
        "coo-atomic",
    )
    assert done.returncode == 1
    assert records["faulty-wild"].status == "failed"
    assert records["faulty-host"].status == "failed"
    assert records["faulty-host"].reason.startswith("faulty.py:")
    assert "no such plan" in records["faulty-host"].reason
    assert records["csr-scalar"].status == "ok"
    assert records["coo-atomic"].status == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_a_failure_while_timing_costs_that_variant_only(device: str) -> None:
    records, done = bench(device, "grid:n=12", "--watchdog", "3", "--variant", "faulty-late*", "--variant", "scipy*")
    assert done.returncode == 1
    assert records["faulty-late"].status == "failed"
    assert "out of luck" in records["faulty-late"].reason
    assert records["faulty-late-hang"].status == "failed"
    assert "no answer in 3 s" in records["faulty-late-hang"].reason
    libraries = [r for name, r in records.items() if name.startswith("scipy")]
    assert libraries
    assert all(r.status == "ok" and len(r.samples) == 2 for r in libraries)


def test_the_wrong_row_is_shown_and_unranked() -> None:
    done = spgraph(
        "bench",
        "spmv",
        "grid:n=12",
        "--device",
        "host",
        "--no-save",
        "--variant",
        "faulty-short",
        "--variant",
        "csr-scalar",
    )
    assert done.returncode == 1
    assert "faulty-short" in done.stdout
    assert "wrong" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "\x1b" not in done.stdout


def test_a_kernel_that_does_not_compile_names_file_and_line(tmp_path: Path) -> None:
    source = tmp_path / "typo.cu"
    source.write_text('#include "common/spg.cuh"\n\nSPG_KERNEL typo(value_t* y) { y[0] = nonsense; }\n')
    plugin = tmp_path / "typo.py"
    plugin.write_text(
        "from spgraph_bench.variants.base import variant\n"
        f"@variant('spmv', 'typo', format='csr', source={str(source)!r}, about='does not compile')\n"
        "def typo(job):\n    return job.launch(job.kernel('typo').bind(1, 1, job.buffers['y']))\n"
    )
    environment = {**os.environ, "SPGRAPH_PLUGINS": str(plugin)}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "spgraph_bench",
            "bench",
            "spmv",
            "grid:n=5",
            "--device",
            "host",
            "--no-save",
            "--json",
            "--variant",
            "typo",
            "--variant",
            "csr-scalar",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    records = {r["variant"]: r for r in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 1
    assert records["typo"]["status"] == "failed"
    assert "typo.cu:3: " in records["typo"]["reason"]
    assert "nonsense" in records["typo"]["reason"]
    assert records["csr-scalar"]["status"] == "ok"


def test_a_plugin_with_an_error_is_a_usage_error(tmp_path: Path) -> None:
    plugin = tmp_path / "bad.py"
    plugin.write_text("x = 1\nraise ValueError('not today')\n")
    done = subprocess.run(
        [sys.executable, "-m", "spgraph_bench", "bench", "spmv", "grid:n=5", "--device", "host"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "SPGRAPH_PLUGINS": str(plugin)},
    )
    assert done.returncode == 2
    assert f"{plugin}:2: ValueError: not today" in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupt_ends_with_the_table_of_what_is_finished(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "spgraph_bench",
            "bench",
            "spmv",
            "grid:n=40",
            "--device",
            "host",
            "--results",
            str(tmp_path),
            "--watchdog",
            "100",
            "--variant",
            "csr-scalar",
            "--variant",
            "faulty-hang",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "SPGRAPH_PLUGINS": str(PLUGIN)},
    )
    deadline = time.monotonic() + 60
    # csr-scalar's record is written before the hanging kernel is tried.
    while time.monotonic() < deadline:
        if any(path.stat().st_size for path in tmp_path.glob("*.jsonl")):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "csr-scalar" in out
    assert "interrupted" in out
    assert "Traceback" not in err
    (file,) = tmp_path.glob("*.jsonl")
    statuses = {r["variant"]: r["status"] for r in map(json.loads, file.read_text().splitlines())}
    assert statuses == {"csr-scalar": "ok", "faulty-hang": "skipped"}


@pytest.mark.slow
def test_interrupt_while_timing_keeps_the_samples() -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "spgraph_bench",
            "bench",
            "spmv",
            "grid:n=300",
            "--device",
            "host",
            "--no-save",
            "--json",
            "--time-limit",
            "60",
            "--variant",
            "scipy*",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(6)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode in (0, 130), err
    if process.returncode == 130:
        (record,) = (Record.from_json(json.loads(line)) for line in out.splitlines())
        assert record.status == "ok" or "interrupted" in record.reason


def test_in_process_gives_the_same_records() -> None:
    records, done = bench("host", "grid:n=12", "--in-process", "--variant", "csr*", plugin=False)
    assert done.returncode == 0
    assert {r.status for r in records.values()} <= {"ok", "skipped"}
    assert records["csr-vector"].counters is not None


def test_unknown_names_are_usage_errors() -> None:
    for args, message in (
        (("--variant", "csr-vectr"), "csr-vector"),
        (("--format", "crs"), "csr"),
        (("--param", "blok=3"), "block"),
        (("--param", "block=33"), "64"),
        (("--variant", "csr-scalar", "--format", "ell"), "omit one of them"),
    ):
        done = commands.spgraph("bench", "spmv", "grid:n=5", "--device", "host", *args)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr


def test_a_process_that_waits_is_taken_by_the_next_worker() -> None:
    from spgraph_bench.runner import worker

    worker.start_spare()
    worker.start_spare()  # one is enough
    (spare,) = worker._spare
    made = worker.ProcessWorker("host", {})
    assert made._process is spare.popen
    assert made.call("hello")["kind"] == "host"
    made.close()
    assert made._process.returncode == 0
    assert worker._spare == []


@pytest.mark.parametrize(
    ("args", "starts"),
    [
        (["bench", "spmv", "--no-such-option"], True),
        (["bench", "spmv", "no-such-file", "--device", "host"], True),
        (["bench", "--help"], False),
        (["bench", "spmv", "no-such-file", "--device", "host", "--in-process"], False),
        (["list", "formats"], False),
    ],
)
def test_a_process_that_waits_ends_with_the_command(
    args: list[str], starts: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from spgraph_bench.cli.main import run
    from spgraph_bench.runner import worker

    started: list[subprocess.Popen[bytes]] = []

    class Noted(worker._Process):
        def __init__(self) -> None:
            super().__init__()
            started.append(self.popen)

    monkeypatch.setattr(worker, "_Process", Noted)
    assert run(args) == (2 if starts or "--in-process" in args else 0)
    assert len(started) == starts
    assert all(process.returncode is not None for process in started)
    assert worker._spare == []


def test_libraries_are_loaded_while_the_device_gets_ready(tmp_path: Path) -> None:
    from spgraph_bench.runner.worker import ProcessWorker

    made = tmp_path / "made"
    early = [functools.partial(os.mkdir, tmp_path / "no" / "folder"), functools.partial(os.mkdir, made)]
    worker = ProcessWorker("host", {}, early=early)
    assert worker.call("hello")["kind"] == "host"
    worker.call("busy")
    deadline = time.monotonic() + 10
    while not made.is_dir() and time.monotonic() < deadline:
        time.sleep(0.01)
    worker.close()
    assert made.is_dir()


def test_only_libraries_that_run_are_loaded() -> None:
    from spgraph_bench.variants import get_variant
    from spgraph_bench.variants.base import loaders
    from spgraph_bench.variants.cusparse_library import load

    libraries = [get_variant("spmv", name) for name in ("cusparse-csr-1", "cusparse-coo-1", "scipy")]
    assert loaders(libraries) == (load,)
    assert loaders([get_variant("spmv", "csr-scalar")]) == ()


def test_a_kernel_may_need_macros_of_its_host_function() -> None:
    from spgraph_bench import recipes
    from spgraph_bench.runner.run import run
    from spgraph_bench.runner.session import Session
    from spgraph_bench.runner.settings import Settings
    from spgraph_bench.variants import select

    records: list[Record] = []
    with Session("host", in_process=True) as session:
        run(session, recipes.make("blocks:n=12"), "spmv", select("spmv", ["bsr"]), Settings(), records.append)
    assert [(r.variant, r.status, r.reason) for r in records] == [("bsr", "ok", "")]


def test_what_is_compiled_ahead_is_what_the_worker_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench import recipes
    from spgraph_bench.runner import building
    from spgraph_bench.runner.run import run
    from spgraph_bench.runner.session import Session
    from spgraph_bench.runner.settings import Settings
    from spgraph_bench.toolchain import modules
    from spgraph_bench.variants import select

    ahead, later = [], []
    build_all, build = building.build_all, modules.build

    def noting_all(requests: list[building.Request], **more: object) -> object:
        ahead.extend(request.key for request in requests)
        return build_all(requests, **more)  # type: ignore[arg-type]

    def noting(request: building.Request) -> Path:
        later.append(request.key)
        return build(request)

    monkeypatch.setattr(building, "build_all", noting_all)
    monkeypatch.setattr(building, "_built", set())
    monkeypatch.setattr("spgraph_bench.device.host.build", noting)
    chosen = [v for v in select("spmv") if v.name in ("csr-scalar", "csr-adaptive", "ell", "csr-merge")]
    with Session("host", in_process=True) as session:
        run(session, recipes.make("poisson2d:n=20"), "spmv", chosen, Settings(), lambda record: None)
    assert len(ahead) == 4
    assert set(ahead) <= set(later)


def test_host_functions_of_plugins_are_called_by_workers_only() -> None:
    from dataclasses import replace

    from spgraph_bench.device import open_device
    from spgraph_bench.runner.building import _ahead
    from spgraph_bench.runner.plan import Task
    from spgraph_bench.variants import get_variant

    def called(job: object) -> Any:
        raise SystemExit("it was called")

    info, task = open_device("host").info(), Task("spmv", {})
    mine = replace(get_variant("spmv", "pattern-sell"), prepare=called)
    assert _ahead(mine, "float32", task, info) == [
        ("spmv/pattern_sell.cu", {"SPG_VALUE": "float", "SPG_OFFSET": "int", "SPG_AHEAD": "8"})
    ]
    assert _ahead(replace(get_variant("spmv", "ell"), prepare=called), "float32", task, info) == []


def test_what_a_format_refuses_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench import recipes
    from spgraph_bench.runner import building
    from spgraph_bench.runner.run import run
    from spgraph_bench.runner.session import Session
    from spgraph_bench.runner.settings import Settings
    from spgraph_bench.variants import select

    labels: list[str] = []
    real = building.build_all

    def noted(requests: list[building.Request], **more: object) -> object:
        labels.extend(request.label for request in requests)
        return real(requests, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "build_all", noted)
    monkeypatch.setattr(building, "_built", set())
    chosen = [v for v in select("spmv") if v.name in ("csr-scalar", "pattern-csr", "dia", "bsr")]
    records: list[Record] = []
    with Session("host", in_process=True) as session:
        run(session, recipes.make("rmat:scale=8"), "spmv", chosen, Settings(), records.append, run_id="one")
        run(session, recipes.make("rmat:scale=8"), "spmv", chosen, Settings(), records.append, done={"dia/float32"})
    assert {r.variant for r in records if r.status == "ok"} == {"csr-scalar"}
    assert all(r.reason for r in records if r.status == "skipped")
    assert len(labels) == 1  # the second run is known to have its kernels
    assert "csr_scalar" in labels[0]
    assert [r.run for r in records].count("one") == len(chosen)
    assert len(records) == 2 * len(chosen) - 1


@pytest.mark.parametrize(
    ("name", "options", "read"),
    [("bfs", {}, False), ("pagerank", {}, False), ("pagerank", {"weighted": "yes"}, True), ("sssp", {}, True)],
)
def test_values_that_are_not_read_are_not_handed_over(name: str, options: dict[str, Any], read: bool) -> None:
    from spgraph_bench.problems import get_problem
    from spgraph_bench.recipes import make
    from spgraph_bench.runner.assembly import assemble
    from spgraph_bench.runner.settings import Settings

    matrix = make("rmat:scale=5,symmetrize=1")
    problem = get_problem(name, options)
    settings = Settings(dtypes=problem.dtypes[:1], options=options)
    made = assemble(matrix, problem, settings, lambda doing: None, keep_answer=False)
    assert (made.payload.csr.values is not None) is read
    assert made.matrix.csr.values is not None
