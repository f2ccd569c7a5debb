"""Exit statuses of whole runs, as a shell or a CI job sees them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import spgraph

from spgraph_bench.cli.main import run

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "tests" / "plugins" / "faulty.py"
BENCH = ("bench", "spmv", "rmat:scale=6", "--device", "host", "--no-save", "--time-limit", "0.1")


def _start(*args: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spgraph_bench", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def _spgraph(*args: str, cwd: Path, **environment: str) -> tuple[int, str, str]:
    process = _start(*args, cwd=cwd, **environment)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    return process.returncode, out, err


def _records(out: str) -> dict[str, Any]:
    return {record["variant"]: record for record in map(json.loads, out.splitlines())}


def test_0_success_with_a_skip(tmp_path: Path) -> None:
    status, out, _ = _spgraph(*BENCH, "--variant", "csr-scalar", "--variant", "cusparse-*", "--json", cwd=tmp_path)
    records = {name: record["status"] for name, record in _records(out).items()}
    assert status == 0
    assert records["csr-scalar"] == "ok"
    assert records["cusparse-csr-1"] == "skipped"
    assert not list(tmp_path.iterdir()), "--no-save kept something"


def test_1_a_wrong_variant(tmp_path: Path) -> None:
    status, out, _ = _spgraph(
        *BENCH, "--variant", "csr-scalar", "--variant", "faulty-short", cwd=tmp_path, SPGRAPH_PLUGINS=str(PLUGIN)
    )
    assert status == 1
    assert "faulty-short" in out
    assert "wrong" in out


@pytest.mark.slow
def test_1_a_variant_that_never_returns_and_the_run_goes_on(tmp_path: Path) -> None:
    status, out, _ = _spgraph(
        *BENCH,
        "--variant",
        "csr-scalar",
        "--variant",
        "faulty-hang",
        "--watchdog",
        "2",
        "--json",
        cwd=tmp_path,
        SPGRAPH_PLUGINS=str(PLUGIN),
    )
    records = _records(out)
    assert status == 1
    assert records["faulty-hang"]["status"] == "failed"
    assert "no answer in 2" in records["faulty-hang"]["reason"]
    assert records["csr-scalar"]["status"] == "ok"


def test_1_nothing_ran(tmp_path: Path) -> None:
    status, _, err = _spgraph(*BENCH, "--variant", "cusparse-*", cwd=tmp_path)
    assert status == 1
    assert "nothing ran" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("bench", "spmv", "no-such-file.mtx"), "no such file"),
        (("bench", "spmw"), "Did you mean spmv?"),
        (("bench", "spmv", "--no-such-option"), "No such option"),
        (("bench", "spmv", "--rank"), "`spgraph bench spmv --help`"),
        (("info", "--base"), "`spgraph info --help`"),
        ((*BENCH, "--variant", "csr-vectr"), "csr-vector"),
        (
            (*BENCH, "--format", "nope"),
            "no variant of spmv reads a format 'nope'\n  remedy: `spgraph list formats` names them\n",
        ),
        ((*BENCH, "--format", "jd"), "no variant of spmv reads a format 'jd'\n  remedy: did you mean jds?\n"),
        ((*BENCH, "--param", "blok=128"), "blok"),
        ((*BENCH, "--param", "block=3"), "block"),
        (("info", "rmat:scale=99"), "scale takes 1.."),
        (("generate", "rmta:scale=4", "-o", "x.mtx"), "did you mean rmat"),
    ],
)
def test_2_usage_and_input(
    args: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = spgraph(*args)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stdout == ""
    assert re.fullmatch(r"(no .*\n)?error: .*\n  remedy: .*\n", done.stderr)  # a cause and a remedy, a line each


def test_2_an_index_out_of_range_is_one_line_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 2\n1 1 1.0\n4 1 1.0\n"
    )
    status, out, err = _spgraph("bench", "spmv", "bad.mtx", "--device", "host", cwd=tmp_path)
    assert status == 2
    assert "bad.mtx:5: " in err
    # A slow machine has said by then that it reads.
    assert len([line for line in err.strip().splitlines() if not line.endswith("...")]) <= 2
    assert out == ""


@pytest.mark.parametrize("device", ["cuda:99"])
def test_3_no_such_device(device: str, tmp_path: Path) -> None:
    status, out, err = _spgraph("bench", "spmv", "rmat:scale=6", "--device", device, cwd=tmp_path)
    assert status == 3
    assert err.startswith("error: ")
    assert "remedy: " in err
    assert out == ""


def test_2_results_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "results").touch()
    status, out, err = _spgraph("bench", "spmv", "rmat:scale=6", "--device", "host", cwd=tmp_path)
    assert status == 2
    assert "results" in err
    assert out == ""


def test_130_interrupted_with_the_table_of_what_was_finished(tmp_path: Path) -> None:
    """Ctrl-C while a variant hangs: the others are in the table and in the records."""
    process = _start(
        "bench",
        "spmv",
        "rmat:scale=6",
        "--device",
        "host",
        "--variant",
        "csr-scalar",
        "--variant",
        "faulty-late-hang",
        "--time-limit",
        "60",
        cwd=tmp_path,
        SPGRAPH_PLUGINS=str(PLUGIN),
    )
    deadline = time.monotonic() + 60
    while not any(file.stat().st_size for file in (tmp_path / "results").glob("*.jsonl")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "csr-scalar" in out
    assert "interrupted" in err


# ---- streams and disks -----------------------------------------------------------------------------------

HOST = ("--device", "host", "--variant", "csr-scalar", "--variant", "csr-vector", "--time-limit", "0.05")


def _shell(line: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`line` in a shell, with $S for spgraph."""
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        cwd=cwd,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "S": f"{sys.executable} -m spgraph_bench", **environment},
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("command", ["list formats", "info rmat:scale=4", "generate rmat:scale=4 -o -"])
def test_2_stdout_on_a_full_disk(command: str, tmp_path: Path) -> None:
    done = _shell(f"$S {command} > /dev/full", tmp_path)
    assert done.returncode == 2, done.stderr
    assert "error: cannot write: No space left on device\n  remedy: " in done.stderr
    assert "internal" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_0_closed_streams(closed: str, tmp_path: Path) -> None:
    done = _shell(f"$S bench spmv rmat:scale=4 {' '.join(HOST)} --no-save {closed}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_2_an_error_that_cannot_be_printed(tmp_path: Path) -> None:
    assert _shell("$S info nothing.mtx 2> /dev/full", tmp_path).returncode == 2
    assert _shell("$S nonsense 2> /dev/full", tmp_path).returncode == 2


@pytest.mark.slow
def test_2_a_disk_that_fills_up_costs_the_file_and_not_the_table(tmp_path: Path) -> None:
    command = f"$S bench spmv rmat:scale=4 {' '.join(HOST)} --dtype both --in-process"
    # The compiled kernels must be in the cache: the limit would hold for them too.
    assert _shell(f"{command} --no-save", tmp_path).returncode == 0
    done = _shell(f"ulimit -f 4; {command}", tmp_path)
    assert done.returncode == 2, done.stderr
    for message in ("csr-scalar", "csr-vector", "float64"):
        assert message in done.stdout
    assert "going on without keeping records" in done.stderr
    assert "error: results/" in done.stderr
    (file,) = (tmp_path / "results").glob("*.jsonl")
    assert all(json.loads(line)["status"] == "ok" for line in file.read_text().splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_0_names_that_stdout_cannot_say(encoding: str, tmp_path: Path) -> None:
    """Letters beyond the encoding, a blank, and what looks like markup."""
    text = "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n"
    (tmp_path / "caf\u00e9 \u77e9 [b].mtx").write_text(text)
    for command in ("info", f"bench spmv {' '.join(HOST)} --json", f"bench spmv {' '.join(HOST)}"):
        done = _shell(f"$S {command} caf*.mtx", tmp_path, PYTHONIOENCODING=encoding)
        assert done.returncode == 0, done.stderr
        assert "[b]" in done.stdout


@pytest.mark.slow
def test_records_of_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    """As the C locale gives it: each byte that cannot be decoded is a lone surrogate."""
    from spgraph_bench.results.store import RecordFile, read_records

    made = read_records(_one_record(tmp_path))[0]
    named = replace(made, matrix={**made.matrix, "name": "bad\udcff"})
    with RecordFile(tmp_path / "again", "spmv", "bad") as file:
        file.append(named)
    assert read_records(file.path)[0].matrix["name"] == "bad\udcff"


def _one_record(folder: Path) -> Path:
    status, out, _ = _spgraph(*BENCH, "--variant", "csr-scalar", "--json", cwd=folder)
    assert status == 0
    (folder / "one.jsonl").write_text(out)
    return folder / "one.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_130_leaves_nothing_in_shared_memory(number: signal.Signals, tmp_path: Path) -> None:
    process, folders = _hanging(tmp_path)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not [folder for folder in folders if folder.exists()]


@pytest.mark.slow
def test_what_a_killed_run_left_in_shared_memory_is_removed_by_the_next(tmp_path: Path) -> None:
    killed, left = _hanging(tmp_path)
    living, used = _hanging(tmp_path)
    killed.send_signal(signal.SIGKILL)  # as when memory runs out
    killed.communicate(timeout=60)
    try:
        status, _, err = _spgraph(*BENCH, "--variant", "csr-scalar", cwd=tmp_path, TMPDIR=str(tmp_path))
        assert status == 0, err
        assert not [folder for folder in left if folder.exists()]
        assert all(list(folder.glob("*.npy")) for folder in used), "those of a living run are gone"
    finally:
        living.send_signal(signal.SIGTERM)
        living.communicate(timeout=60)
    assert not [folder for folder in used if folder.exists()]


def _hanging(tmp_path: Path) -> tuple[subprocess.Popen[str], list[Path]]:
    """A run that hangs in a kernel, and its folders in /dev/shm."""
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK):
        pytest.skip("no /dev/shm")
    process = _start(
        "bench",
        "spmv",
        "rmat:scale=6",
        "--device",
        "host",
        "--no-save",
        "--variant",
        "faulty-hang",
        cwd=tmp_path,
        SPGRAPH_PLUGINS=str(PLUGIN),
        TMPDIR=str(tmp_path),
    )
    deadline = time.monotonic() + 60
    while not (folders := [p for p in shm.glob("spgraph-*") if _opened_by(process.pid, p)]):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process, folders


def _opened_by(parent: int, folder: Path) -> bool:
    """Whether a child of `parent` has files of `folder` mapped."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    try:
        return any(folder.name in Path(f"/proc/{child}/maps").read_text() for child in children.read_text().split())
    except OSError:
        return False


@pytest.mark.parametrize(
    ("param", "mode"),
    [
        ("alpha=nan", "auto"),
        ("alpha=-1", "auto"),
        ("alpha=inf", "auto"),
        ("beta=1e10", "auto"),
        ("probes=-1", "auto"),
        ("probes=2.5", "auto"),
        ("small_vertices=1e9", "auto"),
        ("small_vertices=1025", "auto"),
        ("warp_from=-1", "balanced"),
        ("parents=1", "auto"),
        ("block_from=99999999999999999999", "balanced"),
        ("grid_from=1e400", "balanced"),
    ],
)
def test_2_numbers_that_mean_nothing(param: str, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bfs", "rmat:scale=4", "--device", "host", "--no-save", "--mode", mode, "--param", param]) == 2
    printed = capsys.readouterr().err
    assert param.partition("=")[0] in printed
    assert "remedy: " in printed


@pytest.mark.parametrize(
    "param",
    [
        "hyb_k=-1",
        "hyb_k=x",
        "hyb_k=1.5",
        "hyb_k=nan",
        "tile_width=0",
        "tile_width=65536",
        "bin_entries=x",
        "sell_sigma=0",
        "sell_sigma=2.5",
        "sell_sigma=1e400",
        "block_size=9x9",
        "block_size=x",
        "block_size=0",
    ],
)
def test_2_sizes_that_no_format_has(param: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "spmv", "rmat:scale=4", "--device", "host", "--no-save", "--param", param]) == 2
    assert "remedy: take auto" in capsys.readouterr().err.replace('"', "")


@pytest.mark.parametrize("command", [["bfs"], ["bench", "bfs"]])
def test_2_a_file_without_an_edge_is_named(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lonely.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n3 3 0\n")
    assert run([*command, str(path), "--device", "host", "--no-save"]) == 2
    assert f"error: {path}: no vertex has an edge to another one\n  remedy: " in capsys.readouterr().err


@pytest.mark.parametrize("command", [["profile", "direction"], ["advise", "--problem", "bfs"], ["bfs"]])
def test_2_a_matrix_of_no_graph_is_named(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wide.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n3 5 1\n1 5\n")
    assert run([*command, str(path)]) == 2
    assert f"error: {path}: a graph needs a square matrix, this one is 3 x 5\n  remedy: " in capsys.readouterr().err


@pytest.mark.parametrize("param", ["hyb_k=median", "hyb_k=3", "sell_sigma=64"])
def test_0_sizes_that_formats_have(param: str) -> None:
    variant = "hyb" if param.startswith("hyb") else "sell"
    assert run([*BENCH, "--variant", variant, "--in-process", "--param", param]) == 0


def test_hyb_k_has_an_option_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["bench", "spmv", "star:n=40", "--device", "host", "--no-save", "--in-process", "--json"]
    assert run([*line, "--variant", "hyb", "--hyb-k", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["params"]["slots"] == 2
    assert run([*line, "--variant", "hyb", "--hyb-k", "median"]) == 0
    assert json.loads(capsys.readouterr().out)["params"]["slots"] == 1
    for wrong, message in (
        (["--variant", "hyb", "--hyb-k", "x"], "hyb_k"),
        (["--variant", "hyb", "--hyb-k", "2", "--param", "hyb_k=3"], "hyb_k is given twice"),
        (["--variant", "ell", "--hyb-k", "2"], "no parameter is called 'hyb_k'"),
    ):
        assert run([*line, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_2_a_plugin_that_exits(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(7)\n")
    status, _, err = _spgraph("list", "variants", cwd=tmp_path, SPGRAPH_PLUGINS="leaves.py")
    assert status == 2
    assert "leaves.py:2: SystemExit: 7" in err


def test_2_no_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    assert run([*BENCH]) == 2
    err = capsys.readouterr().err
    assert "no folder for temporary files can be written to" in err
    assert "TMPDIR" in err


@pytest.mark.slow
def test_2_generate_where_the_disk_is_full(tmp_path: Path) -> None:
    for name in ("x.mtx", "x.mtx.gz", "x.npz", "x.txt"):
        done = _shell(f"ulimit -f 8; $S generate rmat:scale=12 -o {name}", tmp_path)
        assert done.returncode == 2, done.stderr
        assert f"{name}: cannot be written: File too large\n  remedy: " in done.stderr
    assert not list(tmp_path.iterdir())


def test_130_before_anything_is_imported(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import time\nopen('started', 'w').close()\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "spgraph_bench", "list"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted\n")


@pytest.mark.parametrize("package", ["click", "rich", "numpy"])
def test_2_a_package_that_is_missing(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('gone', name={package!r})\n")
    done = subprocess.run(
        [sys.executable, "-m", "spgraph_bench", "list"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        timeout=60,
    )
    printed = f"error: the package {package} is missing\n  remedy: pip install {package}\n"
    assert (done.returncode, done.stderr) == (2, printed)


@pytest.mark.slow
def test_0_a_file_whose_name_is_not_utf8(tmp_path: Path) -> None:
    try:
        name = os.path.join(os.fsencode(tmp_path), b"bad\xff.mtx")
        with open(name, "w") as file:
            file.write("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1.5\n")
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    for command in ("info", "info --json", f"bench spmv {' '.join(HOST)}", f"bench spmv {' '.join(HOST)} --json"):
        done = _shell(f"$S {command} bad*.mtx", tmp_path)
        assert done.returncode == 0, done.stderr


def test_options_are_called_as_they_are_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "bfs", "rmat:scale=4", "--check-seconds", "-1"]) == 2
    assert "'--check-seconds': cannot be" in capsys.readouterr().err
