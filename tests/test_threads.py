"""--threads N: how many threads recipes, readers, conversions and baselines take at most."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commands import spgraph

from spgraph_bench import cores, recipes
from spgraph_bench.cores import core_limit, limit_cores, usable_cores
from spgraph_bench.formats import get_format
from spgraph_bench.runner.session import Session
from spgraph_bench.threads import cuts, even_cuts, over
from spgraph_bench.toolchain import library


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Sizes of the pools that are made and, 1 each, threads that are started outside of pools; of 6 CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)), raising=False)
    noted: list[int] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, size: int) -> None:
            noted.append(size)
            super().__init__(size)

    class Thread(threading.Thread):
        def start(self) -> None:
            noted.append(1)
            super().start()

    monkeypatch.setattr(cores, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(library, "threading", SimpleNamespace(Thread=Thread))
    yield noted
    limit_cores(None)


def test_recipes_and_conversions_keep_the_limit(sizes: list[int]) -> None:
    made = []
    for limit, most in ((None, 6), (2, 2), (64, 6)):
        limit_cores(limit)
        assert (usable_cores(), core_limit()) == (most, limit)
        sizes.clear()
        matrix = recipes.make("rmat:scale=16,edgefactor=20,seed=1").csr
        assert matrix.nnz > 1 << 20  # from there on conversions are compiled code on several threads
        assert set(sizes) == {most}
        sizes.clear()
        made.append(matrix.col_idx)
        get_format("sell").pack(matrix, np.float32)
        assert len(sizes) % (most - 1) == 0  # beside the one that asks, for each step
        assert sizes
    np.testing.assert_array_equal(made[0], made[1])
    with pytest.raises(ValueError, match="0 threads"):
        limit_cores(0)


def test_workers_have_the_limit_of_their_parent() -> None:
    limit_cores(1)
    try:
        with Session("host") as session:
            assert session.info().extra["cores"] == 1
    finally:
        limit_cores(None)


def test_the_option_holds_for_its_command(tmp_path: Path) -> None:
    words = ("bench", "spmv", "poisson2d:n=9", "--variant", "scipy", "--no-save", "--json", "--time-limit", "0.01")
    done = spgraph(*words, "--in-process", "--device", "host", "--threads", "1")
    record = json.loads(done.stdout.splitlines()[0])
    assert (record["status"], record["environment"]["cores"]) == ("ok", 1)
    assert core_limit() is None
    for command in (
        ("convert", "chain:n=9", str(tmp_path / "a.mtx")),
        ("generate", "chain:n=9", "-o", str(tmp_path / "b.mtx")),
    ):
        assert spgraph(*command, "--threads", "2").returncode == 0
    assert (tmp_path / "a.mtx").read_bytes() == (tmp_path / "b.mtx").read_bytes()
    assert spgraph("info", "chain:n=9", "--threads", "2").returncode == 0
    done = spgraph("convert", "chain:n=9", str(tmp_path / "c.mtx"), "--threads", "0")
    assert (done.returncode, "take an integer from 1 to 4096" in done.stderr) == (2, True)


@pytest.mark.parametrize("interrupted", [0, 1])
def test_no_range_is_begun_after_one_failed(interrupted: int) -> None:
    """Nor after Ctrl-C, which only the first thread gets."""
    begun: list[int] = []
    both, failed = threading.Barrier(2), threading.Event()

    def task(thread: int, first: int, last: int) -> None:
        begun.append(first)
        if len(begun) <= 2:
            both.wait(10)
        if thread == interrupted:
            failed.set()
            raise KeyboardInterrupt if thread == 0 else ValueError
        failed.wait(10)
        time.sleep(0.05)

    with pytest.raises((KeyboardInterrupt, ValueError)):
        over([(k, k + 1) for k in range(100)], task, 2)
    assert len(begun) <= 4


@pytest.mark.parametrize("items", [0, 1, 5, 16, 1000, 12_345])
def test_items_of_the_same_weight_are_cut_as_others(items: int) -> None:
    limit_cores(2)
    try:
        assert even_cuts(items) == cuts(np.arange(items + 1))
        by_32 = even_cuts(items, 32)
        assert [end for _, end in by_32[:-1]] == [first for first, _ in by_32[1:]]
        assert all(first % 32 == 0 for first, _ in by_32)
        assert not items or (by_32[0][0], by_32[-1][1]) == (0, items)
        assert len(even_cuts(2**34)) == len(even_cuts(1000))  # no array of so many items is made
    finally:
        limit_cores(None)
