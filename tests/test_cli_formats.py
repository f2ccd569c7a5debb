"""`spgraph formats`: what formats cost, from counts that are known; its sentence; the trace beside the model."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from battery import csr, matrix, random_rows

from spgraph_bench import recipes
from spgraph_bench.cli.main import run
from spgraph_bench.device import host_compiler
from spgraph_bench.formats.base import formats, get_format
from spgraph_bench.runner.tradeoffs import Tradeoff, Walk, recommendation, tradeoffs, walks


def _walks(name: str, a: Any, dtype: str = "float32") -> tuple[Walk, ...]:
    return walks(get_format(name).pack(a, dtype), a.row_lengths().astype(np.int64))


def test_rows_of_one_length() -> None:
    """256 rows of 16: lanes of a thread per row are 16 elements apart; those of ELL lie side by side."""
    a = random_rows([16] * 256, 4096)
    thread, warp, parts = _walks("csr", a)
    assert (thread.lanes, thread.longest, thread.coalescing) == (32, 1, 4 / 32)
    assert (warp.lanes, warp.coalescing) == (16, 1)
    assert (parts.lanes, parts.atomics) == (32, 1)
    for name in ("ell", "sell", "jds", "hyb"):
        (walk,) = _walks(name, a)
        assert (walk.lanes, walk.longest, walk.coalescing, walk.atomics) == (32, 1, 1, 0), name
    assert _walks("csr", a, "float64")[0].coalescing == 8 / 32
    # Row by row, as in CSR: each lane reads a sector of its own, and nothing else differs from ELL.
    assert _walks("ell-rows", a) == (dataclasses.replace(_walks("ell", a)[0], coalescing=4 / 32),)


def test_rows_one_after_another_are_read_as_by_csr() -> None:
    """As far as no row is padded: where one is, the next one begins later."""
    a = random_rows([3] * 64, 100)
    assert _walks("ell-rows", a)[0] == _walks("csr", a)[0]
    (walk,) = _walks("ell-rows", random_rows([1, 9, *[1] * 62], 100))  # 10 rows in four sectors become one in each
    assert walk.coalescing < _walks("csr", random_rows([1, 9, *[1] * 62], 100))[0].coalescing


def test_one_long_row() -> None:
    a = random_rows([3200] + [1] * 3199, 8192)
    thread, warp, _ = _walks("csr", a)
    # 100 warps: 3,200 steps of the first, one of each of the others.
    assert thread.longest == pytest.approx(3200 / (3299 / 100))
    assert thread.outlasts
    assert thread.lanes == pytest.approx(6399 / 3299)
    assert warp.outlasts
    plain, summed = _walks("coo", a)
    assert (plain.atomics, summed.atomics) == (6399, 100 + 3199)
    hyb, by_entries = _walks("hyb", a)
    assert not hyb.outlasts
    assert 0 < hyb.atomics <= 100
    assert by_entries == dataclasses.replace(hyb, mapping="tail by entries", atomics=3199)


def test_misaligned_pieces_of_a_row() -> None:
    """Rows of 33: the second begins 4 bytes behind a sector's start, its piece of 32 covers five sectors."""
    _, warp, _ = _walks("csr", random_rows([33, 33], 64))
    assert warp.coalescing == (4 + 1 + 4 + 1) / (4 + 1 + 5 + 1)


def test_blocks_and_diagonals() -> None:
    blocks = recipes.make("blocks:n=8,block=4").csr
    (plain,), (sliced,) = _walks("bsr", blocks), _walks("bsr-sliced", blocks)
    assert plain.coalescing < sliced.coalescing <= 1
    (dia,) = _walks("dia", recipes.make("banded:n=64,diagonals=3").csr)
    assert dia.lanes == pytest.approx(32 * (64 * 3 - 2) / (64 * 3))


@pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))
@pytest.mark.parametrize(("name", "kernel", "walk"), [("csr", "csr-scalar", 0), ("jds", "jds", 0), ("sell", "sell", 0)])
def test_model_and_trace_agree_on_lanes(name: str, kernel: str, walk: int) -> None:
    from spgraph_bench.runner.tracing import trace_variant
    from spgraph_bench.variants import get_variant

    made = recipes.make("rmat:scale=9")
    loads = trace_variant(get_variant("spmv", kernel), made)[0].total("load")
    assert _walks(name, made.csr)[walk].lanes == pytest.approx(loads.lanes_per_request, rel=0.25)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (3, 200), (33, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_format_has_a_row(shape: tuple[int, int], dtype: str) -> None:
    for entries in (0, min(shape)):
        a = matrix(csr(*shape, np.arange(entries), np.zeros(entries, int)))
        rows = tradeoffs(a, dtype)
        assert [row.format for row in rows] == list(formats())
        assert all((row.refused is None) == (row.conversion_s is not None) for row in rows)
        assert all(walk.lanes <= 32 and 0 < walk.coalescing <= 1 for row in rows for walk in row.walks)
        assert recommendation(rows, a.csr.nnz).endswith(".") or not a.csr.nnz


def test_what_fits_depends_on_each_figure() -> None:
    good = Walk("thread per row", 1.0, 32.0, 1.0, 0)
    base = Tradeoff("a", 800, 0.0, 0.001, (good,), kernels=("k",))

    def names(**other: Any) -> str:
        second = dataclasses.replace(base, format="other", **other)
        return recommendation([base, second], 100)

    assert "other" in names()
    for change in ({"lanes": 3.0}, {"coalescing": 0.2}, {"outlasts": True}, {"atomics": 100}):
        assert "other" not in names(walks=(dataclasses.replace(good, **change),)), change
    assert "other" not in names(bytes=1600)
    assert "other" not in names(kernels=())
    assert "other" not in names(refused="too long")
    assert " a (" not in names(bytes=400)
    bad = dataclasses.replace(base, walks=(dataclasses.replace(good, lanes=1.0),))
    assert "No format fits" in recommendation([bad], 100)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["formats", "rmat:scale=9"]) == 0
    out = capsys.readouterr().out
    assert "warp per row" in out
    assert "ell: " not in out.split("refused")[0]
    assert "pattern-csr*" in out
    assert max(len(line) for line in out.split("refused")[0].splitlines()) <= 110
    assert out.splitlines()[-1].startswith("By this model csr-16")


@pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))
@pytest.mark.slow
def test_json_with_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["formats", "arrow:n=40", "--traced", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "spgraph-formats-1"
    by_name = {row["format"]: row for row in data["formats"]}
    atomic = next(t for t in by_name["coo"]["traced"] if t["kernel"] == "coo-atomic")
    assert atomic["atomics"] == by_name["coo"]["walks"][0]["atomics"] == 118
    assert by_name["pattern-csr"]["kernels"] == []
    assert by_name["pattern-csr"]["traced"] == []
    assert "In the trace" in data["advice"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["absent.mtx"], "no such file"),
        (["rmat:scale=5", "--base", "1"], "do not apply"),
        (["--dtype", "int8"], "int8"),
    ],
)
def test_errors(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["formats", *args]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) <= 2


def test_trace_without_a_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(host_compiler, "available", lambda: "there is no C++ compiler")
    assert run(["formats", "arrow:n=4", "--traced"]) == 2
    assert "no C++ compiler" in capsys.readouterr().err
