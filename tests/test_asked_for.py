"""Options of a run other than variants: --min-samples, --warmup, and the folder that records go to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import spgraph_bench
from spgraph_bench.cli.main import run
from spgraph_bench.errors import UsageError
from spgraph_bench.measure.sampling import rule_for_cases
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.paths import results_folder

SCIPY = [
    "bench",
    "spmv",
    "poisson2d:n=4",
    "--variant",
    "scipy",
    "--device",
    "host",
    "--in-process",
    "--time-limit",
    "0.01",
]


def test_as_many_samples_and_warm_ups_as_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SCIPY, "--no-save", "--json", "--min-samples", "60", "--warmup", "11"]) == 0
    for samples in json.loads(capsys.readouterr().out)["samples"]:
        assert len(samples["times_ms"]) >= 60
        assert samples["warmups"] == 11
    made = spgraph_bench.bench(
        "poisson2d:n=4", variants="scipy", device="host", in_process=True, time_limit=0.01, min_samples=30, warmup=0
    )
    for taken in made[0].samples:
        assert len(taken.times_ms) >= 30
        assert taken.warmups == 0
    with pytest.raises(UsageError, match="min_samples cannot be 5"):
        spgraph_bench.bench("poisson2d:n=4", min_samples=5)


def test_the_rule_and_its_cases() -> None:
    rule = StoppingRule.asked_for(1.0, 2000)
    assert (rule.min_samples, rule.floor_samples, rule.max_samples) == (2000, 2000, 2000)
    assert StoppingRule.asked_for(1.0, None) == StoppingRule(time_limit_s=1.0)
    several = rule_for_cases(rule, 64)
    assert several.floor_samples == several.min_samples == 32  # of 64 each
    assert rule_for_cases(StoppingRule(), 64).floor_samples == 1


@pytest.mark.parametrize(
    "bad", [["--min-samples", "5"], ["--min-samples", "x"], ["--warmup", "-1"], ["--warmup", "1.5"]]
)
def test_bad_numbers(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SCIPY, *bad]) == 2
    assert "take an integer from" in capsys.readouterr().err


def test_records_go_where_a_user_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By option, by variable, else to the user's data; never to the current folder by itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPGRAPH_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("SPGRAPH_RESULTS")
    for more, folder in ((["--results", "here"], tmp_path / "here"), ([], tmp_path / "data" / "results")):
        assert run([*SCIPY, *more]) == 0
        (file,) = folder.glob("*.jsonl")
        assert f"records in {file.relative_to(tmp_path) if more else file}" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
    assert run(["report", "--format", "csv"]) == 0
    assert "scipy" in capsys.readouterr().out
    monkeypatch.setenv("SPGRAPH_RESULTS", "named")
    assert run(SCIPY) == 0
    assert len(list((tmp_path / "named").glob("*.jsonl"))) == 1


def test_where_the_data_of_a_user_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPGRAPH_RESULTS", "SPGRAPH_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert results_folder() == tmp_path / ".local/share/spgraph/results"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert results_folder() == tmp_path / "xdg/spgraph/results"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError()))
    with pytest.raises(UsageError, match="no folder for records"):
        results_folder()


def test_doctor_says_where_records_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown() -> str:
        run(["doctor"])
        (line,) = (line for line in capsys.readouterr().out.splitlines() if "records folder" in line)
        return line

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPGRAPH_RESULTS", str(tmp_path / "new" / "deep"))
    assert shown().split() == ["ok", "records", "folder", str(tmp_path / "new" / "deep")]
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPGRAPH_RESULTS", str(tmp_path / "file" / "in"))
    assert "cannot be written" in shown()
