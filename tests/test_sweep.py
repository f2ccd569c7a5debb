"""Sweeps: ranges, configs with their lines, plans, the file of records, and what becomes of each kind of trouble."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.errors import DeviceError, InputError, UsageError
from spgraph_bench.formats import get_format
from spgraph_bench.gpus import H200, get_gpu
from spgraph_bench.paths import configs_dir
from spgraph_bench.recipes import make
from spgraph_bench.recipes.ranges import expand
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import read_records, to_json_lines
from spgraph_bench.sweep import station
from spgraph_bench.sweep.config import config_names, read_config
from spgraph_bench.sweep.estimate import TimeLeft, estimate, quick_estimate, schedule
from spgraph_bench.sweep.inputs import Input
from spgraph_bench.sweep.journal import Journal
from spgraph_bench.sweep.plan import Plan, make_plan
from spgraph_bench.sweep.station import Station

PLUGIN = Path(__file__).parent / "plugins" / "faulty.py"
QUICK = ("--device", "host", "--time-limit", "0.01")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("grid:n=2^5..2^8", ["32", "64", "128", "256"]),
        ("grid:n=10..13", ["10", "11", "12", "13"]),
        ("grid:n=100..600:+200", ["100", "300", "500"]),
        ("grid:n=1k..1M:x100", ["1000", "100000"]),
        ("grid:n=2^10", ["1024"]),
        ("grid:n=7", ["7"]),
    ],
)
def test_ranges(text: str, values: list[str]) -> None:
    assert expand(text) == [f"grid:n={value}" for value in values]


def test_several_ranges_give_all_combinations_and_exact_decimals() -> None:
    assert expand("r:a=1..2,b=3..4") == ["r:a=1,b=3", "r:a=1,b=4", "r:a=2,b=3", "r:a=2,b=4"]
    assert expand("r:p=0.1..0.3:+0.1") == ["r:p=0.1", "r:p=0.2", "r:p=0.3"]


@pytest.mark.parametrize(
    "text",
    [
        "grid:n=8..2",
        "grid:n=1..5:x1",
        "grid:n=0..5:x2",
        "grid:n=1..5:+0",
        "grid:n=a..5",
        "grid:n=1..5:7",
        "grid:n=1..9999",
    ],
)
def test_ranges_that_cannot_be(text: str) -> None:
    with pytest.raises(InputError) as caught:
        expand(text)
    assert caught.value.remedy


# ---- configs


@pytest.mark.parametrize("name", config_names())
def test_configs_that_come_with_spgraph_can_be_planned(name: str) -> None:
    config = read_config(configs_dir() / f"{name}.toml")
    plan = make_plan(config.entries, "cuda")
    assert plan.cells
    assert not plan.repeated
    assert len({block.key for block in plan.blocks}) == len(plan.blocks)


GOOD = 'about = "x"\n[[run]]\nproblem = "spmv"\nmatrix = "grid:n=8"\n'


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("about = \n", 1, "not TOML"),
        ('about = "x"\n', 1, "at least one run"),
        ('[[run]]\nproblem = "spmv"\n', 1, "what it is about"),
        (GOOD + 'varaint = "csr"\n', 5, "'varaint' is not a key"),
        (GOOD + "k = 3\n", 5, "'k' is not a key of a run of spmv"),
        (GOOD + '[[run]]\n# here\nproblem = "spmw"\n', 7, "no problem 'spmw'"),
        (GOOD + '[[run]]\nproblem = "spmv"\nmatrix = [\n  "grid:n=8",\n  "grid:m=8",\n]\n', 9, "no parameter 'm'"),
        (GOOD + 'variant = ["csr-*", "csr-vectr"]\n', 5, "no variant of spmv matches 'csr-vectr'"),
        (GOOD + "time-limit = -1\n", 5, "time_limit cannot be -1"),
        (GOOD + 'dtype = "float8"\n', 5, "'float8'"),
        (GOOD + "symmetrize = 1\n", 5, "symmetrize cannot be 1"),
        (GOOD + "symmetrize = true\n", 4, "do not apply to the recipe grid"),
        (GOOD + "param = { blok = 1 }\n", 5, "'blok'"),
        (GOOD + 'matrix = "no/such.mtx"\n', 5, "not TOML"),
        ('about = "x"\n[defaults]\nreorder = "up"\n' + GOOD.partition("\n")[2], 3, "reorder cannot be 'up'"),
        ('about = "x"\n[[run]]\nproblem = "launch"\nmatrix = "grid"\n', 4, "takes no matrix"),
        ('about = "x"\n[[run]]\nproblem = "bfs"\n', 3, "needs a matrix"),
        ('about = "x"\n[[run]]\nproblem = "bfs"\nmatrix = "grid"\nsource = 1\nsources = 2\n', 5, "source names"),
        ('about = "x"\n[[run]]\nproblem = "spmv"\nmatrix = "files/*.mtx"\n', 4, "no file matches"),
        ('about = "x"\n[[run]]\nproblem = "spmm"\nmatrix = "grid"\nk = [8, 0]\n', 5, "k cannot be 0"),
    ],
)
def test_what_is_wrong_in_a_config_is_reported_with_its_line(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_config(path)
    assert caught.value.place == f"{path}:{line}", str(caught.value)
    assert message in caught.value.cause
    assert caught.value.remedy


def _plan(tmp_path: Path, text: str, kind: str = "host") -> Plan:
    path = tmp_path / "plan.toml"
    path.write_text(f'about = "x"\n{text}')
    return make_plan(read_config(path).entries, kind)


def test_a_plan_measures_nothing_twice_and_keeps_a_matrix_together(tmp_path: Path) -> None:
    run = '[[run]]\nproblem = "{}"\nmatrix = ["grid:n=4", "grid:n=5"]\nvariant = {}\n'
    plan = _plan(
        tmp_path, run.format("spmv", '["ell", "csr-scalar"]') + run.format("cc", "[]") + run.format("spmv", '"ell"')
    )
    assert [(b.input.name, b.problem) for b in plan.blocks] == [
        ("grid-4", "spmv"),
        ("grid-4", "cc"),
        ("grid-5", "spmv"),
        ("grid-5", "cc"),
    ]
    assert plan.repeated == 2
    options = _plan(tmp_path, '[[run]]\nproblem = "spmm"\nmatrix = "grid"\nk = [4, 8]\nlayout = ["row", "column"]\n')
    assert [tuple(b.options.values()) for b in options.blocks] == [(4, "row"), (4, "column"), (8, "row"), (8, "column")]


def test_time_left_follows_what_blocks_took_and_work_is_shared(tmp_path: Path) -> None:
    plan = _plan(tmp_path, '[[run]]\nproblem = "spmv"\nmatrix = "grid:n=10..13"\n')
    estimates = [quick_estimate(block, "cuda") for block in plan.blocks]
    timer = TimeLeft(estimates)
    timer.ended(plan.blocks[0].key, 3 * estimates[0].seconds)
    assert timer.seconds == pytest.approx(3 * sum(each.seconds for each in estimates[1:]))
    assert schedule(estimates, 2) < 0.6 * schedule(estimates, 1)
    assert schedule(estimates, 8) == pytest.approx(max(each.seconds for each in estimates))


@pytest.mark.parametrize(("problem", "option", "value"), [("spmm", "k", 32), ("bfs-batch", "sources", 64)])
def test_what_was_not_said_is_estimated_as_it_is_run(tmp_path: Path, problem: str, option: str, value: int) -> None:
    """The memory of a sweep's SpMM was that of one column of X, unless k was given."""
    text = f'problem = "{problem}"\nmatrix = "uniform:n=40000,degree=8"\n'
    [default] = _plan(tmp_path, f"[[run]]\n{text}", "cuda").blocks
    [explicit] = _plan(tmp_path, f"[[run]]\n{text}{option} = {value}\n", "cuda").blocks
    one, other = quick_estimate(default, "cuda"), quick_estimate(explicit, "cuda")
    assert (one.host_bytes, one.device_bytes, one.seconds) == (other.host_bytes, other.device_bytes, other.seconds)


def test_a_block_is_estimated_for_the_gpu(tmp_path: Path) -> None:
    text = 'problem = "spmv"\nmatrix = "uniform:n=40000,degree=8"\nvariant = "binned"\nforce-format = true\n'
    [block] = _plan(tmp_path, f"[[run]]\n{text}", "cuda").blocks
    matrix, form = make("uniform:n=40000,degree=8"), get_format("binned")
    needs = []
    for gpu in (get_gpu("T4"), H200):
        made = estimate(block, matrix, "cuda", 1 << 34, gpu=gpu)
        packed = form.on(gpu).pack(matrix.csr)
        assert made.device_bytes == packed.stored_bytes + 2 * 4 * 40_000
        needs.append(made.device_bytes)
    assert needs[0] != needs[1]


# ---- the file


def _record(cell: str, status: str = "ok", device: str = "one") -> Record:
    return Record(
        "spmv",
        "csr",
        "csr",
        None,
        "gpu",
        "float32",
        {"name": "m", "sha256": "0"},
        {"name": device},
        {},
        cell,
        status,  # type: ignore[arg-type]
    )


def test_the_journal_goes_on_from_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.add(_record("a"), "a")
        journal.add(_record("b"), "b")
        journal.add(_record("b"), "b")  # a worker that was thought lost
        first = journal.id
        with pytest.raises(UsageError, match="another sweep"):
            Journal(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    warnings: list[str] = []
    with Journal(path, warn=warnings.append) as journal:
        assert journal.id == first
        assert journal.has({"one"}) == {"a"}
        assert not journal.has({"two"})
        journal.add(_record("b"), "b")
    assert "cut off" in warnings[0]
    assert path.read_bytes() == whole


def test_failed_cells_are_measured_again_and_all_of_them_too(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(to_json_lines([_record("")]))  # of a bench: no cell of a sweep
    with Journal(path) as journal:
        for cell, status in (("a", "ok"), ("b", "failed"), ("c", "wrong"), ("d", "skipped")):
            journal.add(_record(cell, status), cell)
    with Journal(path, "failed") as journal:
        assert journal.has({"one"}) == {"a", "d"}
        journal.add(_record("b"), "b")
    assert [r.sweep.get("cell") for r in read_records(path)] == [None, "a", "d", "b"]
    with Journal(path, "all") as journal:
        assert not journal.done
    assert len(list(tmp_path.glob("*.jsonl"))) == 1  # an empty one does not stay


def test_a_file_of_something_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("my notes")
    for content in ("my notes", "my notes\n", '{"a": 1}\n'):
        path.write_text(content)
        with pytest.raises(InputError) as caught:
            Journal(path)
        assert caught.value.place == f"{path}:1"
        assert path.read_text() == content


# ---- whole sweeps


def _by_cell(path: Path) -> dict[tuple[str, str], Record]:
    records = read_records(path)
    by_cell = {(str(r.matrix["name"]), r.variant): r for r in records}
    assert len(by_cell) == len(records), "a cell is there twice"
    return by_cell


def test_trouble_with_one_matrix_is_a_record_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "bad.mtx").write_text("nothing\n")
    (tmp_path / "m" / "good.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 3 2\n1 1 1\n2 3 2\n")
    (tmp_path / "m" / "notes.md").write_text("no matrix\n")
    path = tmp_path / "s.jsonl"
    command = [
        "sweep",
        str(tmp_path / "m"),
        "uniform:n=1000000000",
        "grid:n=4",
        "-o",
        str(path),
        "--in-process",
        *QUICK,
    ]
    command += ["--problem", "spmv", "--problem", "cc", "--variant", "csr-scalar", "--variant", "hook"]
    assert run([*command, "--variant", "csr-scalr"]) == 2
    assert run(command) == 1
    printed = capsys.readouterr()
    assert "failed: spmv bad" in printed.out
    assert printed.out.splitlines()[-1] == "8 of 8 cells: 3 ok, 3 skipped, 2 failed"
    records = _by_cell(path)
    assert {name: r.status for name, r in records.items()} == {
        ("bad", "csr-scalar"): "failed",
        ("bad", "hook"): "failed",
        ("good", "csr-scalar"): "ok",
        ("good", "hook"): "skipped",  # components of 2 x 3
        ("uniform-1000M-16", "csr-scalar"): "skipped",
        ("uniform-1000M-16", "hook"): "skipped",
        ("grid-4", "csr-scalar"): "ok",
        ("grid-4", "hook"): "ok",
    }
    assert "bad.mtx:1" in records["bad", "csr-scalar"].reason
    assert "of memory" in records["uniform-1000M-16", "hook"].reason
    before = path.read_bytes()
    assert run(command) == 1
    assert "nothing is left to do" in capsys.readouterr().err
    assert path.read_bytes() == before
    (tmp_path / "m" / "bad.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n")
    assert run([*command, "--again", "failed"]) == 0
    assert _by_cell(path)["bad", "csr-scalar"].status == "ok"
    assert run(["report", str(path), "--format", "md"]) == 0
    assert run(["compare", str(path), str(path)]) == 0


def test_a_dry_run_knows_what_will_be_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.jsonl"
    command = ["sweep", "rmat:scale=6", "grid:n=6,values=ones", "-o", str(path), "--in-process", "--json", *QUICK]
    for glob in ("dia", "bsr", "pattern-*", "csr-scalar", "cusparse-csr*", "scipy"):
        command += ["--variant", glob]
    assert run([*command, "--dry-run"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert not path.exists()
    refused = {
        (block["matrix"], key.split("/")[0]) for block in printed for keys in block["refused"].values() for key in keys
    }
    assert run(command) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all("derived" in record for record in records)
    skipped = {(r["matrix"]["name"], r["variant"]) for r in records if r["status"] == "skipped"}
    assert refused == skipped
    assert ("rmat6", "pattern-csr") in refused
    assert ("grid-6-ones", "pattern-csr") not in refused
    assert run([*command[:1], "rmat:scale=6", "uniform:n=1000000000", "--dry-run", *QUICK]) == 0
    assert "will not run: spmv uniform-1000M-16: it needs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "nothing to sweep"),
        (("smal",), "no such file or folder"),
        (("rmat:scale=5..2",), "error: rmat:scale=5..2: the range begins above its end"),
        (("smal.toml",), "did you mean small?"),
        (("small", "grid"), "one config at a time"),
        (("grid", "small"), "not both"),
        (("grid", "--show"), "not a config"),
        (("small", "--list"), "takes no names"),
        (("small", "--problem", "spmw"), "leave nothing"),
        (("small", "--symmetrize"), "a config says this itself"),
        (("grid", "--problem", "spmw"), "no problem 'spmw'"),
        (("grid", "--option", "k=3"), "--option k=3"),
        (("grid:n=9..3",), "above its end"),
        (("grid", "--symmetrize"), "do not apply to the recipe"),
        (("grid", "--dtype", "float8"), "float8"),
        (("-",), "no such file"),
    ],
)
def test_wrong_command_lines(args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", *args, *(() if "--list" in args else QUICK)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 2, printed.err
    assert not printed.out


def test_bench_takes_several_inputs_and_measures_again_when_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "bench",
        "spmv",
        "grid:n=3..4",
        "--variant",
        "csr-scalar",
        "--results",
        str(tmp_path),
        "--in-process",
        *QUICK,
    ]
    assert run(command) == 0
    out = capsys.readouterr().out
    assert "spmv: grid-3" in out
    assert "spmv: grid-4" in out
    assert run(command) == 0
    assert len(list(tmp_path.glob("sweep-spmv-*.jsonl"))) == 2
    assert run([*command, "--no-save", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2


def test_a_worker_reads_a_matrix_once_and_keeps_it_while_memory_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _plan(tmp_path, '[[run]]\nproblem = ["spmv", "cc"]\nmatrix = "grid:n=4..5"\n')
    loaded: list[str] = []
    real = Input.load
    monkeypatch.setattr(Input, "load", lambda self, progress: loaded.append(self.name) or real(self, progress))
    for memory, reads in ((1 << 30, 2), (0, 3)):
        monkeypatch.setattr(station, "available_memory", lambda memory=memory: memory)
        loaded.clear()
        with Station("host") as there:
            for block in (*plan.blocks, plan.blocks[0]):
                there.matrix(block)
        assert len(loaded) == reads, loaded


def test_a_device_that_fails_once_costs_a_block_and_twice_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _plan(tmp_path, '[[run]]\nproblem = "spmv"\nmatrix = "grid:n=3..7"\nvariant = "csr-scalar"\n')
    fails = iter([False, True, False, True, True])

    def measured(*given: Any) -> None:
        if next(fails):
            raise DeviceError("gone")

    statuses: list[str] = []
    with Station("host", in_process=True) as station:
        monkeypatch.setattr(station, "_run", measured)
        for block in plan.blocks[:4]:
            station.measure(block, "run", lambda cell, record: statuses.append(f"{record.status}: {record.reason}"))
        with pytest.raises(DeviceError):
            station.measure(plan.blocks[4], "run", lambda cell, record: None)
    assert statuses[1] == statuses[3] == "failed: gone"
    assert all(status == "failed: it was not measured" for status in statuses[::2])


def test_a_full_disk_ends_the_sweep_whatever_cell_it_meets(tmp_path: Path) -> None:
    plan = _plan(tmp_path, '[[run]]\nproblem = "spmv"\nmatrix = "grid:n=3"\nvariant = "csr-scalar"\n')

    def keep(*given: Any) -> None:
        raise InputError("result not saved: no space left on device")

    with Station("host", in_process=True) as station, pytest.raises(InputError, match="no space left"):
        station.measure(plan.blocks[0], "run", keep)
    with pytest.raises(UsageError, match="not a regular file"):
        Journal(Path(os.devnull))


def _start(*args: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spgraph_bench", "sweep", *args, *QUICK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "SPGRAPH_PLUGINS": str(PLUGIN), "PYTHONPATH": str(PLUGIN.parents[2])},
    )


def test_a_killed_sweep_goes_on_and_repeats_nothing_and_a_crash_costs_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    command = ("grid:n=3..30", "-o", str(path), "--variant", "csr-scalar", "--variant", "faulty-wild")
    first = _start(*command, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while (not path.exists() or path.read_bytes().count(b"\n") < 6) and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    whole = path.read_bytes()
    whole_lines = whole[: whole.rfind(b"\n") + 1]
    second = _start(*command, cwd=tmp_path)
    _, err = second.communicate(timeout=120)
    assert second.returncode == 1, err
    assert path.read_bytes().startswith(whole_lines)
    assert len(whole_lines) < len(path.read_bytes())
    records = _by_cell(path)
    assert len(records) == 2 * 28
    assert {r.status for (_, name), r in records.items() if name == "csr-scalar"} == {"ok"}
    assert all(r.status in ("failed", "wrong") for (_, name), r in records.items() if name == "faulty-wild")
    assert len({r.sweep["id"] for r in records.values()}) == 1
    assert f"{whole_lines.count(b'%c' % 10)} cells are in" in err
