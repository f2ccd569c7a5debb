"""Files mean what their fields mean by them: from a small file through the command line to the answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.errors import InputError
from spgraph_bench.readers import ReadOptions, read, readers

ROADS = "c two roads each way\np sp 2 4\na 1 2 50\na 1 2 30\na 2 1 50\na 2 1 30\n"


def test_parallel_edges_count_with_the_least_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("roads.gr").write_text(ROADS)

    def lengths(*more: str) -> tuple[list[float], Any]:
        common = ("--source", "1", "--device", "host", "--in-process", "--no-save", "--json", "--output", "a.csv")
        assert run(["sssp", "roads.gr", "--mode", "near-far", *common, *more]) == 0
        rows = [line.split(",") for line in Path("a.csv").read_text().splitlines()[1:]]
        return sorted(float(row[1]) for row in rows), json.loads(capsys.readouterr().out.splitlines()[0])["matrix"]

    (least, by_default), (summed, as_sums) = lengths(), lengths("--duplicates", "sum")
    assert (least, summed) == ([0, 30], [0, 80])
    assert "2 duplicates (min)" in by_default["said"]
    assert by_default["entries_sha256"] == as_sums["entries_sha256"]
    assert by_default["sha256"] != as_sums["sha256"]
    assert [m["policies"]["duplicates"] for m in (by_default, as_sums)] == ["min", "sum"]


CONTENTS = {
    "matrix-market": "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n",
    "no banner": "3 3 2\n1 2\n2 3\n",
    "no size line": "%%MatrixMarket matrix coordinate pattern general\n2 1\n3 1\n",
    "edge-list": "# c\n1 2\n2 3\n3 1\n",
    "weights": "1 2 0.5\n2 3 7\n",
    "names": "a b\nb c\n",
    "konect": "% sym weighted\n1 2 3\n2 3 1\n",
    "dimacs": "p sp 3 2\na 1 2 4\na 2 3 5\n",
    "colouring": "p edge 3 2\ne 1 2\ne 2 3\n",
    "metis": "3 2\n2\n1 3\n2\n",
    "pajek": "*Vertices 2\n*Edges\n1 2\n",
    "gml": "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]\n",
    "graphml": "<graphml><graph edgedefault='directed'></graph></graphml>\n",
}


def refusal(path: Path, forced: str) -> InputError | None:
    """Why the file is not read as `forced`, if it is not."""
    try:
        assert read(str(path), ReadOptions(input_format=forced)).csr.nnz
    except InputError as error:
        return error
    return None


@pytest.mark.parametrize("forced", readers())
def test_a_forced_format_is_obeyed_or_refused_with_a_way_out(tmp_path: Path, forced: str) -> None:
    """No remedy names the format that was given, nor one whose remedy names that again."""
    path = tmp_path / "a.mtx"
    for content in CONTENTS.values():
        path.write_text(content)
        error = refusal(path, forced)
        if error is None:
            continue
        assert error.remedy, error
        named = re.findall(r"(?:--input-format|such as) ([a-z-]+)", error.remedy)
        assert forced not in named, error
        for other in {*named} & {*readers()}:
            second = refusal(path, other)
            assert second is None or f"--input-format {forced}" not in (second.remedy or ""), second
