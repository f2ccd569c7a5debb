"""`spgraph compare`: verdicts, how often they are wrong, what is matched and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from spgraph_bench.cli.bench import command as bench
from spgraph_bench.cli.compare import _command
from spgraph_bench.cli.main import run
from spgraph_bench.report.comparison import comparison_markdown, comparison_table
from spgraph_bench.results.comparison import compare_records, regressed, verdict_of
from spgraph_bench.results.record import Record, Samples
from spgraph_bench.results.statistics import Ratio
from spgraph_bench.results.store import read_records, to_json_lines


def _samples(times: Sequence[float], cases: int = 1) -> Samples:
    which = tuple(i % cases for i in range(len(times))) if cases > 1 else ()
    return Samples("cold", tuple(map(float, times)), "cuda-events", True, 3, "converged", cases=which)


def _record(times: Sequence[float] = (1.0,) * 20, **fields: Any) -> Record:
    plain: dict[str, Any] = {
        "problem": "spmv",
        "variant": "csr-vector",
        "format": "csr",
        "library": None,
        "where": "gpu",
        "dtype": "float32",
        "matrix": {"name": "m", "sha256": "ab", "policies": {"base": 1}},
        "device": {"name": "H", "driver": "1", "toolkit": "13.0"},
        "environment": {"cpu": "C"},
        "run": "r",
        "status": "ok",
        "samples": (_samples(times),),
    }
    return Record(**{**plain, **fields})


def _verdict(base: Sequence[Record], new: Sequence[Record], **options: Any) -> str:
    (cell,) = compare_records(base, new, **options).cells
    return cell.verdict


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [
        (0.99, 1.0, 1.01, "same"),
        (1.01, 1.02, 1.029, "same"),
        (1.04, 1.05, 1.06, "slower"),
        (0.94, 0.95, 0.96, "faster"),
        (0.99, 1.05, 1.1, "unsure"),
        (1.001, 1.02, 1.05, "unsure"),
        (0.9, 1.0, 1.1, "unsure"),
    ],
)
def test_verdicts(low: float, value: float, high: float, verdict: str) -> None:
    assert verdict_of(Ratio(value, low, high), 0.03) == verdict
    assert verdict_of(None, 0.03) == "unsure"


def _noisy(draw: np.random.Generator, count: int, spread: float) -> list[float]:
    """Times as they come on a GPU: a narrow core, and now and then one that is far too long."""
    times = np.exp(draw.normal(0, spread, count))
    return list(times * np.where(draw.random(count) < 0.05, 1 + draw.exponential(0.3, count), 1.0))


@pytest.mark.parametrize("spread", [0.002, 0.01, 0.05])
def test_false_alarms_are_under_one_percent(spread: float) -> None:
    draw = np.random.default_rng(1)
    trials = 1000
    verdicts = [
        _verdict([_record(_noisy(draw, 20, spread))], [_record(_noisy(draw, 20, spread))]) for _ in range(trials)
    ]
    assert verdicts.count("slower") + verdicts.count("faster") < 0.01 * trials


@pytest.mark.parametrize("spread", [0.002, 0.01])
def test_five_percent_are_found(spread: float) -> None:
    """At the default sample size: 20 samples, or as many as bring the interval of the median within 1 %."""
    draw = np.random.default_rng(2)
    trials, count = 500, 20 if spread < 0.01 else 40
    result = sum(
        _verdict([_record(_noisy(draw, count, spread))], [_record(1.05 * np.array(_noisy(draw, count, spread)))])
        == "slower"
        for _ in range(trials)
    )
    assert result >= 0.99 * trials


def test_searches_are_compared_source_by_source() -> None:
    """Sources differ by 100 times, their medians by 5 %: seen immediately."""
    sources = np.logspace(0, 2, 16)
    cases = tuple({"source": i} for i in range(16))

    def searched(factor: float, seed: int) -> Record:
        draw = np.random.default_rng(seed)
        times = np.concatenate([factor * sources * np.exp(draw.normal(0, 0.005, 16)) for _ in range(3)])
        return _record(problem="bfs", cases=cases, samples=(_samples(times, 16),))

    assert _verdict([searched(1, 1)], [searched(1, 2)]) == "same"
    assert _verdict([searched(1, 1)], [searched(1.05, 2)]) == "slower"
    other = replace(searched(1.05, 2), cases=tuple({"source": i + 1} for i in range(16)))
    result = compare_records([searched(1, 1)], [other])
    assert result.cells[0].verdict == "unsure"
    assert "other sources" in result.cells[0].notes


def test_what_broke_is_a_regression() -> None:
    good, wrong, gone = (_record(), _record(status="wrong", reason="row 3", samples=()), _record(status="skipped"))
    for new, verdict, loose, strict in (
        (wrong, "broken", True, True),
        (gone, "lost", False, True),
        (good, "same", False, False),
    ):
        result = compare_records([good], [new])
        assert result.cells[0].verdict == verdict
        assert (regressed(result), regressed(result, strict=True)) == (loose, strict)
    assert _verdict([wrong], [good]) == "repaired"
    assert regressed(compare_records([good, _record(variant="ell")], [good]), strict=True)


def test_cells_are_matched() -> None:
    base = [_record(params={"block": 128}), _record(dtype="float64"), _record(variant="only-base")]
    new = [_record(params={"block": 256}), _record(dtype="float64"), _record(variant="only-new")]
    result = compare_records(base, new)
    assert [(c.new.dtype, c.verdict) for c in result.cells] == [("float32", "same"), ("float64", "same")]
    assert "parameters" in result.cells[0].notes[0]  # a default that changed hides nothing
    assert [r.variant for r in (*result.only_base, *result.only_new)] == ["only-base", "only-new"]
    both = [_record(params={"block": b}) for b in (128, 256)]
    assert [c.notes for c in compare_records(both, both[::-1]).cells] == [(), ()]
    other = [_record(matrix={"name": "m", "sha256": "cd"})]
    assert not compare_records(base, other).cells


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"device": {"name": "A100", "driver": "1", "toolkit": "13.0"}}, "device"),
        ({"device": {"name": "H", "driver": "2", "toolkit": "13.0"}}, "driver"),
        ({"library": "cuSPARSE", "environment": {"cpu": "C", "libraries": {"cuSPARSE": "12.9"}}}, "library"),
        ({"matrix": {"name": "m", "sha256": "ab", "policies": {"base": 0}}}, "policy"),
    ],
)
def test_other_machines_are_refused_unless_allowed(fields: dict[str, Any], name: str) -> None:
    base = _record(library=fields.get("library"))
    assert set(compare_records([base], [_record(**fields)]).refused) == {name}
    assert not compare_records([base], [_record(**fields)], allow=[name]).refused


def _files(folder: Path, **sides: Sequence[Record]) -> list[str]:
    for name, records in sides.items():
        (folder / f"{name}.jsonl").write_text(to_json_lines(records))
    return [str(folder / f"{name}.jsonl") for name in sides]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPGRAPH_DATA", str(tmp_path / "data"))
    base, slow = _files(tmp_path, base=[_record()], slow=[_record([1.05] * 20)])
    assert run(["compare", base, base]) == 0
    assert "1 same of 1 cell" in capsys.readouterr().out
    assert run(["compare", base, slow]) == 1
    assert "+5.0 %" in capsys.readouterr().out
    assert run(["compare", base, slow, "--threshold", "6%"]) == 0
    assert run(["compare", "--keep", "main", base]) == 0
    capsys.readouterr()
    assert run(["compare", "--baseline", "main", slow, "--format", "json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["cells"][0]["verdict"] == "slower"
    assert printed["cells"][0]["ratio"] == pytest.approx(1.05)
    assert run(["compare", base, slow, "--format", "markdown"]) == 1
    assert "| csr-vector | m | float32 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["{base}"], 2, "1 set of records given, two are compared"),
        (["{base}", "nowhere.jsonl"], 2, "cannot read records"),
        (["--baseline", "none", "{base}"], 2, "there is no baseline 'none'"),
        (["--baseline", "../x", "{base}"], 2, "a baseline cannot be called '../x'"),
        (["{base}", "{driver}"], 2, "the sides differ in driver: 1, CUDA 13.0 and 2, CUDA 13.0"),
        (["{base}", "{other}"], 1, "no cell is in both sets"),
        (["{base}", "{base}", "--threshold", "x"], 2, "cannot be 'x'"),
    ],
)
def test_wrong_input(
    args: list[str],
    status: int,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPGRAPH_DATA", str(tmp_path / "data"))
    driver = {"name": "H", "driver": "2", "toolkit": "13.0"}
    paths = _files(
        tmp_path, base=[_record()], driver=[_record(device=driver)], other=[_record(matrix={"sha256": "cd"})]
    )
    names = dict(zip(("base", "driver", "other"), paths, strict=True))
    assert run(["compare", *(arg.format(**names) for arg in args)]) == status
    err = capsys.readouterr().err
    assert words in err
    assert len(err.strip().splitlines()) <= 2


def test_tables_fit_and_hold_no_control_characters() -> None:
    nasty = _record(variant="\x1b[31mred", matrix={"name": "a\x07" * 60, "sha256": "ab", "policies": {}})
    result = compare_records([nasty], [nasty])
    for text in (comparison_table(result, 60, False), comparison_markdown(result)):
        assert "\x1b" not in text
        assert "\x07" not in text
    assert max(map(len, comparison_table(result, 60, False).splitlines())) <= 60


def _published() -> list[Record]:
    """A record for each problem and type, of those that are published."""
    folder = Path(__file__).resolve().parent.parent / "results" / "h200"
    return list({(r.problem, r.dtype): r for r in read_records(folder) if r.status == "ok"}.values())


def test_the_command_of_every_record_is_one() -> None:
    seen = set()
    for record in _published():
        words = _command(record)
        context = click.Context(bench)
        command = bench.get_command(context, words[1])
        assert command is not None
        given = command.make_context(words[1], words[2:], parent=context).params
        seen.add(record.problem)
        for name, value in record.given_options.items():
            assert str(given[name] or "no") == str(value or "no"), (record.problem, name)
        assert given.get("dtype", record.dtype) == record.dtype
    assert {"bfs", "bfs-batch", "cc", "launch", "pagerank", "spmm", "spmv", "sssp"} <= seen


def test_a_source_is_measured_again_by_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.txt").write_text("1 2\n2 3\n3 1\n")  # vertex 1 has the number 0
    out = tmp_path / "records"
    command = ["bench", "bfs", str(tmp_path / "graph.txt"), "--source", "1", "--variant", "scipy", "--device", "host"]
    assert run([*command, "--results", str(out), "--time-limit", "0.05"]) == 0
    few = tmp_path / "few.jsonl"
    data = json.loads(next(out.glob("*.jsonl")).read_text())
    for s in data["samples"]:
        s["times_ms"] = s["times_ms"][:5]
    few.write_text(json.dumps(data) + "\n")
    capsys.readouterr()
    assert run(["compare", str(few), str(few), "--rerun", "--rounds", "1"]) == 0
    printed = capsys.readouterr()
    assert "stays unsure" not in printed.err
    assert "measured again in 1 turn" in printed.out


def test_places_and_programs_that_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "r.jsonl").write_text(to_json_lines([_record()]))
    for option in (["--rerun", "--base-python", "/none"], ["--rerun", "--new-python", "/none"]):
        assert run(["compare", str(file), str(file), *option]) == 2
        assert f"error: /none is not a program\n  remedy: name a Python with {option[1]}" in capsys.readouterr().err
    monkeypatch.setenv("SPGRAPH_DATA", "/dev/null/none")
    for option in (["--keep", "main"], ["--baseline", "main"]):
        assert run(["compare", *option, str(file)]) == 2
        assert "baselines cannot be kept" in capsys.readouterr().err


def test_unsure_cells_are_measured_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the host device a CPU baseline is timed: really run, by two interpreters that are the same one."""
    out = tmp_path / "records"
    command = ["bench", "spmv", "poisson2d:n=150", "--device", "host", "--variant", "scipy*", "--results", str(out)]
    assert run([*command, "--time-limit", "0.05"]) == 0
    text = next(out.glob("*.jsonl")).read_text()
    data = json.loads(text)
    for s in data["samples"]:  # too few: nothing can be said
        s["times_ms"] = s["times_ms"][:5]
    (tmp_path / "few.jsonl").write_text(json.dumps(data) + "\n")
    few = str(tmp_path / "few.jsonl")
    capsys.readouterr()
    verdicts = []
    while not verdicts or ("1 same of 1 cell" not in verdicts[-1] and len(verdicts) < 4):  # others may use the CPU
        assert run(["compare", few, few, "--rerun", "--rounds", "1", "--threshold", "90%"]) == 0
        text = capsys.readouterr()
        assert "turn 1 of 1" in text.err
        verdicts.append(text.out)
    assert "1 same of 1 cell" in verdicts[-1]
