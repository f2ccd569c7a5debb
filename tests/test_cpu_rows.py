"""The CPU baseline on all cores: how rows are shared out, and what it computes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import spgraph

from spgraph_bench.recipes import make
from spgraph_bench.variants.spmv import cpu

needs_openmp = pytest.mark.skipif(cpu._rows_library() is None, reason="no C++ compiler with OpenMP")


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("lengths", [[0], [5], [0, 0, 0], [1] * 10, [1000, 0, 1, 1], [0, 1, 1, 1000]])
def test_all_rows_are_shared_out_once(lengths: list[int], parts: int) -> None:
    row_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    first = cpu.row_parts(row_ptr, parts)
    assert len(first) == parts + 1
    assert first[0] == 0
    assert first[-1] == len(lengths)
    assert (np.diff(first) >= 0).all()


def test_parts_have_as_many_entries() -> None:
    csr = make("rmat:scale=14").csr
    first = cpu.row_parts(csr.row_ptr, 4)
    work = np.diff(csr.row_ptr[first]) + np.diff(first)
    assert work.max() < 1.05 * work.mean()


@needs_openmp
@pytest.mark.parametrize("offsets", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_checked_in_each_type(dtype: str, offsets: str) -> None:
    args = ("--dtype", dtype, "--offsets", offsets, "--device", "host", "--time-limit", "0.01", "--json")
    done = spgraph("bench", "spmv", "rmat:scale=9", "--variant", "cpu-rows", *args)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["variant"], record["status"], record["dtype"]) == ("cpu-rows", "ok", dtype)


@needs_openmp
def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_rows_library", lambda: None)
    assert cpu._no_openmp(None) == "no C++ compiler with OpenMP: install g++"  # type: ignore[arg-type]
