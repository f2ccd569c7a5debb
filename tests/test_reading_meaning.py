"""Files mean what their fields mean by them: from a small file through the command line to the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.cli.main import run

ROADS = "c two roads each way\np sp 2 4\na 1 2 50\na 1 2 30\na 2 1 50\na 2 1 30\n"


def test_parallel_edges_count_with_the_least_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("roads.gr").write_text(ROADS)

    def lengths(*more: str) -> tuple[list[float], Any]:
        common = (
            "--source",
            "1",
            "--device",
            "host",
            "--in-process",
            "--no-save",
            "--json",
            "--output",
            "a.csv",
        )
        assert run(["sssp", "roads.gr", "--mode", "near-far", *common, *more]) == 0
        rows = [line.split(",") for line in Path("a.csv").read_text().splitlines()[1:]]
        return sorted(float(row[1]) for row in rows), json.loads(capsys.readouterr().out.splitlines()[0])[
            "matrix"
        ]

    (least, by_default), (summed, as_sums) = lengths(), lengths("--duplicates", "sum")
    assert (least, summed) == ([0, 30], [0, 80])
    assert "2 duplicates (min)" in by_default["said"]
    assert by_default["entries_sha256"] == as_sums["entries_sha256"]
    assert by_default["sha256"] != as_sums["sha256"]
    assert [m["policies"]["duplicates"] for m in (by_default, as_sums)] == ["min", "sum"]
