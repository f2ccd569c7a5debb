"""Tables and plots as text: width, order, what is said and what must not be."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rich.cells import cell_len

from spgraph_bench.report import histogram, render, spy
from spgraph_bench.report.text import Column, clean, fit, milliseconds, percent, significant, times, to_text
from spgraph_bench.results import Ceiling, Record
from spgraph_bench.units import human_bytes, quantity
from tests.test_results import around, record, samples

MATRIX = {
    "name": "rmat22",
    "sha256": "0123456789abcdef" * 4,
    "rows": 4_194_304,
    "cols": 4_194_304,
    "nnz": 65_200_000,
    "symmetry": "general",
    "weighted": False,
    "source": {"kind": "recipe", "text": "rmat:scale=22,seed=1", "format": "recipe"},
    "said": ["12 duplicates (sum)"],
    "findings": [{"text": "size line says 12, file has 13", "line": 2, "count": 3}],
}
GPU = {"kind": "cuda", "name": "NVIDIA H200", "arch": "sm_90", "driver": "580.1", "toolkit": "13.0", "uuid": "G"}
HOST = {"kind": "host", "name": "Some CPU", "arch": "x86_64", "l2_bytes": 0}
TIMES = {"convert_ms": 12.3, "upload_ms": 3.0, "compile_ms": 800.0, "preprocess_ms": 0.0}
REASON = (
    "ELL needs 3.3 TB: the longest row has 97,913 of 4.2 M rows' mean 15.6; device has 139 GB and this"
    " reason goes on for longer than a line of any table could ever hold without being wrapped, to the END"
)


def cell(variant: str, ms: float | None = None, **more: Any) -> Record:
    given: dict[str, Any] = {
        "matrix": MATRIX,
        "device": GPU,
        "operations": 130_400_000,
        "bytes": {"compulsory": 556_000_000, "stored": 600_000_000},
        "times": TIMES,
        "ceiling": Ceiling(4390.0, 4220.0, 0.0027, 1 << 31),
        "samples": () if ms is None else (samples(around(ms)), samples(around(ms * 0.9), "hot")),
    }
    return record(variant, **{**given, **more})


def typical() -> list[Record]:
    return [
        cell("csr-scalar", 6.5),
        cell("csr-vector", 0.479),
        cell("hyb", 0.472, format="hyb"),
        cell("cusparse-csr-1", 0.4791, library="cuSPARSE"),
        cell("multiply", 130.0, library="scipy", where="cpu"),
        cell("ell", status="skipped", format="ell", reason=REASON),
        cell("broken", status="wrong", reason="row 17 (length 3): error 12.5 times its bound"),
        cell("hangs", status="failed", reason="no answer in 60 s"),
    ]


def widest(text: str) -> int:
    return max(cell_len(line) for line in text.splitlines())


def words(text: str) -> str:
    return " ".join(text.split())


def line_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if re.match(rf"\s*(=?\d+|\?)?\s*{re.escape(start)}", line))


def test_plain_text_has_no_escapes_and_only_ascii() -> None:
    text = render(typical())
    assert "\x1b" not in text
    assert text.isascii()
    assert widest(text) <= 100


def test_a_terminal_gets_colours_but_not_under_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    colours = r"\x1b\[[0-9;]*3[0-9]"
    assert re.search(colours, render(typical(), terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(colours, render(typical(), terminal=True))


def test_the_head_says_what_was_read_and_on_what() -> None:
    text = words(render(typical()))
    for message in (
        "spmv: rmat22",
        "4,194,304 x 4,194,304, 65,200,000 nonzeros, general, pattern, sha256 0123456789ab",
        "rmat:scale=22,seed=1 (recipe); 12 duplicates (sum)",
        "line 2: size line says 12, file has 13 (3 times)",
        "NVIDIA H200 (sm_90, driver 580.1, CUDA 13.0)",
        "4,390 GB/s measured (read 4,390, copy 4,220, over 2.15 GB); empty kernel 2.70 us",
        "float32, int32 offsets",
    ):
        assert message in text


def test_the_head_says_what_the_clock_reads_when_nothing_happens() -> None:
    def head(zero_ms: float | None) -> str:
        ceiling = Ceiling(4390.0, 4220.0, 0.0027, 1 << 31, zero_ms)
        return words(render([cell("csr-scalar", 0.01, ceiling=ceiling)]))

    assert "clock empty-measurement time 1.42 us, included in each time" in head(0.00142)
    assert "empty-measurement" not in head(None)  # records of older runs


def test_gathered_bytes_are_shown_beside_the_rates() -> None:
    gathered = {"compulsory": 556_000_000, "stored": 600_000_000, "gathered": 260_800_000}
    assert "gathered: 261 MB of x read in each run" in render([cell("csr-scalar", 0.5, bytes=gathered)])
    assert "gathered" not in render([cell("csr-scalar", 0.5)])


def test_rows_are_ranked_with_ties_and_the_verdict_is_given() -> None:
    text = render(typical())
    assert re.match(r"\s*1\s+hyb\s+hyb\s+0\.4720\s+0\.05%\s+0\.4248\s+276\s+1,178\s+27%\s+1\.00x", line_of(text, "hyb"))
    assert line_of(text, "csr-vector").split()[0] == "=2"
    assert line_of(text, "cusparse-csr-1").split()[0] == "=2"
    assert line_of(text, "csr-scalar").split()[0] == "4"
    assert line_of(text, "multiply (scipy)").split()[0] == "5"
    assert "hyb against cusparse-csr-1: 1.02x faster" in text


def test_each_row_has_its_ratio_to_the_best_row_of_a_gpu_library_and_its_interval() -> None:
    rows = [*typical(), cell("cusparse-coo-1", 0.6, library="cuSPARSE", format="coo")]
    text = render(rows)
    assert re.search(r"best\s+cuSPARSE\s+\+-", text)
    # Half-widths of 0.05 % each make one of 0.1 %; the best row of cuSPARSE is 0.4791 ms.
    assert re.search(r"1\.00x\s+0\.985x\s+0\.10%", line_of(text, "hyb"))
    assert re.search(r"1\.27x\s+1\.25x\s+0\.10%", line_of(text, "cusparse-coo-1"))
    assert re.search(r"271x\s+0\.10%", line_of(text, "multiply (scipy)"))
    # Kept where others have to go, with the share of the ceiling.
    long = render([dataclasses.replace(r, format="a-format-of-the-longest-name") for r in rows])
    assert re.search(r"27%\s+1\.00x\s+0\.985x\s+0\.10%", line_of(long, "hyb"))
    # Nothing to compare with but the CPU: no column.
    assert "scipy" not in render([cell("csr-vector", 0.479), rows[4]]).split("---")[0]


def test_a_faster_library_on_the_cpu_does_not_hide_the_one_on_the_gpu() -> None:
    rows = [cell("ours", 1.0), cell("peer", 2.0, library="cuSPARSE")]
    text = render([*rows, cell("multiply", 0.5, library="scipy", where="cpu")])
    assert "ours against peer (cuSPARSE): 2.00x faster" in text


@pytest.mark.parametrize(
    ("ms", "message"),
    [(0.4, "1.20x faster (1."), (0.96, "2.00x slower (2.00x to 2.00x)"), (0.4791, "no measurable difference")],
)
def test_the_verdict_follows_the_intervals(ms: float, message: str) -> None:
    spread = around(ms, 0.0005)
    ours = cell("ours", samples=(samples(spread),))
    assert message in render([ours, cell("peer", 0.48 if ms != 0.4791 else 0.4792, library="cuSPARSE")])


def test_what_is_not_ok_is_not_ranked_and_its_reason_is_whole() -> None:
    broken = dataclasses.replace(typical()[6], samples=cell("x", 0.001).samples)
    text = render([*typical()[:6], broken, typical()[7]])
    table, below = text.split("wrong", 1)
    assert "broken" not in table
    assert "error 12.5 times its bound" in below
    assert "no answer in 60 s" in below
    assert words(REASON) in words(below)
    assert "1  hyb" in table


@pytest.mark.parametrize("width", [40, 60, 80, 100, 250])
@pytest.mark.parametrize("terminal", [False, True])
def test_any_width_is_kept_with_the_longest_names_and_numbers(width: int, terminal: bool) -> None:
    name = "行列" * 60
    awful = [
        cell("a-variant-with-a-name-that-goes-on-" * 3, 1e9, format="blocked-ell", matrix={**MATRIX, "name": name}),
        cell("名前" * 20, 1e-9, matrix={**MATRIX, "name": name}, bytes={"compulsory": 2**62, "stored": 2**62}),
        cell("x" * 90, status="failed", reason="y" * 400, matrix={**MATRIX, "name": name}),
    ]
    text = re.sub(r"\x1b\[[0-9;]*m", "", render(awful, width=width, terminal=terminal))
    assert widest(text) <= min(width, 100)
    assert text.count("y") >= 400
    assert text.count("名前") + text.count("名\n") >= 10
    assert "cold ms" in text


def test_columns_that_do_not_fit_are_named() -> None:
    narrow = words(render(typical(), width=60))
    assert "hidden columns (--json has all):" in narrow
    assert "GFLOP/s" in narrow.split("hidden columns")[1]
    assert "hidden columns" not in render(typical())


def heads(text: str) -> list[list[str]]:
    """The titles of each table, by the rules below them; "cold ms" and the like are two words."""
    lines = text.splitlines()
    return [lines[i - 1].split() for i, line in enumerate(lines) if line.startswith("---")]


@pytest.mark.parametrize("problem", ["spmv", "spmm"])
@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_format_leaves_before_the_rates(problem: str, width: int) -> None:
    """The second table has the format again; the rates stand nowhere else."""
    rows = [
        cell("csr-adaptive", 0.479, problem=problem),
        cell("binned-fused", 0.3297, format="binned-chunks", problem=problem),
        cell("cusparse-csr-1", 0.4791, library="cuSPARSE", problem=problem),
        cell("coo-atomic", samples=(samples(around(12.035), stopped="time limit"),), problem=problem),
    ]
    main, preparation = heads(render(rows, width=width))
    assert {"cold", "GFLOP/s", "ceil", "best", "cuSPARSE"} <= set(main)
    assert main.count("+-") == 2
    assert "format" not in main
    assert "format" in preparation
    # 80 columns hold one of the two that follow from the share of the ceiling and the time.
    assert ("GB/s" in main) == (width > 80)
    assert ("hot" in main) == (width > 80)


def test_of_an_iterative_problem_the_format_leaves_before_the_rates() -> None:
    rows = [
        cell(
            name, ms, problem="pagerank", rate_unit="GTEPS", format=f"{name}-of-a-long-name", result={"iterations": 63}
        )
        for name, ms in (("pull-hubs", 10.0), ("push", 52.0))
    ]
    main, preparation = heads(render(rows))
    assert {"GTEPS", "GB/s", "ceil", "iterations", "each"} <= set(main)
    assert "format" not in main
    assert "format" in preparation


def test_a_short_name_does_not_squeeze_other_columns() -> None:
    """A name of four letters needs no eight columns, for which the titles of others would be cut."""
    for width in range(20, 60):
        columns = [
            Column("mode", ["auto"], "left", fold=True),
            *(Column(title, ["1"], keep=k) for k, title in enumerate(("inspected", "quartiles", "levels"))),
        ]
        text = to_text([fit(columns, [""], width, terminal=False)], width, terminal=False)
        shown = [c.title for c in columns if not c.dropped]
        assert text.split()[: len(shown)] == shown, width


def test_control_characters_and_markup_in_names_are_harmless() -> None:
    text = render([cell("v", 1.0, matrix={**MATRIX, "name": "[red]a\x1b[31mb\r"})])
    assert "\x1b" not in text
    assert "\r" not in text
    assert "[red]a\\x1b[31mb\\x0d" in text


def test_what_paying_for_a_format_takes() -> None:
    rows = [
        cell("csr-vector", 0.5, times={}),
        cell("hyb", 0.4, format="hyb"),
        cell("jds", 0.6, format="jds"),
        cell("sell", 0.3, format="sell", times={}),
    ]
    assert rows[1].times == TIMES
    below = render(rows).split("setup, once for each matrix")[1]
    assert line_of(below, "hyb").endswith(" 153")  # conversion and upload; the compile serves any matrix
    assert line_of(below, "jds").endswith("never")
    assert line_of(below, "sell").endswith("0 runs")
    assert line_of(below, "csr-vector").endswith("-")
    assert "600 MB" in line_of(below, "hyb")
    assert "9.20" in line_of(below, "hyb")


def test_a_kernel_compiled_for_the_matrix_is_marked_and_pays_for_its_compile() -> None:
    own = {"source": "spmv/dia.cu", "tokens": "0" * 64, "options": [], "ms": 700.0, "for_matrix": True}
    rows = [
        cell("csr-vector", 0.5, times={}),
        cell("dia", 0.45, format="dia", times={"convert_ms": 10.0}),
        cell(
            "dia-jit",
            0.4,
            format="dia",
            modules=(own,),
            times={"convert_ms": 10.0, "upload_ms": 5.0, "matrix_compile_ms": 700.0, "compile_ms": 900.0},
        ),
    ]
    text = render(rows)
    ranked, below = text.split("setup, once for each matrix")
    assert line_of(ranked, "dia-jit").split()[-1] == "m"
    assert line_of(ranked, "dia ").split()[-1] != "m"
    assert line_of(below, "dia-jit").endswith(" 7,150")  # (10 + 5 + 700) / 0.1
    assert "715" in line_of(below, "dia-jit")
    assert "m  compiled for this matrix only" in text
    assert "compiled for this matrix" not in render(rows[:2])


def test_head_names_the_versions_of_libraries() -> None:
    environment = {"libraries": {"cuSPARSE": "12.6.3 (nvmath-python 0.9.0)", "scipy": "1.17.1"}}
    text = render([cell("a", 1.0, environment=environment)])
    assert "libraries  cuSPARSE 12.6.3 (nvmath-python 0.9.0), scipy 1.17.1" in re.sub(r" {2,}", "  ", text)


def test_cache_residence_is_labelled_instead_of_a_percentage() -> None:
    text = render([cell("fast", 0.1)])  # 5,560 GB/s of 4,390
    assert re.search(r"\bcache\b", line_of(text, "fast"))
    assert "%" not in line_of(text, "fast").replace("0.05%", "")
    assert "cache-resident (over 100 % of the ceiling)" in text


def test_marks_are_explained() -> None:
    doubtful = samples(around(0.008), stopped="time limit", gated=False, dropped={"throttled": 3, "gate timeout": 1})
    text = render([cell("doubtful", samples=(doubtful,)), cell("few", samples=(samples([1.0, 2.0, 3.0]),))])
    assert line_of(text, "doubtful").split()[-1] == "ftud"
    assert line_of(text, "few").split()[0] == "?"
    for message in (
        "under 3 times the empty kernel (2.70 us)",
        "(time limit)",
        "not gated",
        "samples dropped: 3 throttled, 1 gate timeout",
        "fewer than 6 samples",
    ):
        assert message in text
    assert "not gated" not in render(typical())


def test_notes_of_the_run_are_in_the_header_and_others_name_their_row() -> None:
    busy = "GPU busy: 1 other compute process"
    text = render([cell("a", 1.0, notes=(busy, "odd")), cell("b", 2.0, notes=(busy,))])
    head, below = text.split("cold ms")
    assert busy in head
    assert "a: odd" in below
    assert busy not in below


def test_host_shows_events_instead_of_times_and_never_ranks_them() -> None:
    counted = {"global_atomics": 1234, "barriers": 0, "kernel_launches": 1}
    rows = [
        cell("coo-atomic", format="coo", device=HOST, counters=counted, check={"ok": True}, ceiling=None),
        cell("scipy-csr", 130.0, library="scipy", where="cpu", device=HOST, ceiling=None),
    ]
    text = render(rows)
    assert "kernels are emulated here" in text
    timed, emulated = text.split("emulated, checked, not timed")
    assert "coo-atomic" not in timed
    assert line_of(timed, "scipy-csr").split()[:2] == ["1", "scipy-csr"]
    emulated = emulated.split("setup, once for each matrix")[0]
    assert line_of(emulated, "coo-atomic").split() == ["coo-atomic", "coo", "ok", "1,234", "0", "1"]
    assert "ms" not in emulated
    assert widest(text) <= 100


def test_two_value_types_make_two_tables_under_one_head() -> None:
    text = render([cell("a", 1.0), cell("a", 2.0, dtype="float64")])
    assert text.count("spmv: rmat22") == 1
    assert "float32, int32" in text
    assert "float64, int32" in text
    assert text.count("\n1  a ") == 2


def test_parameters_are_shown_where_they_tell_rows_apart() -> None:
    text = render([cell("hyb", 1.0, params={"k": 3}), cell("hyb", 2.0, params={"k": 8}), cell("csr", 3.0)])
    assert "hyb k=3" in text
    assert "hyb k=8" in text
    assert "k=3" not in render([cell("hyb", 1.0, params={"k": 3})])


def test_nothing_but_failures_still_makes_a_table() -> None:
    text = render([cell("x", status="skipped", reason="not here")])
    assert "skipped  x  not here" in text
    same = [cell(name, status="skipped", reason="not here") for name in ("x", "y")]
    failed = [cell(name, status="failed", reason="not here") for name in ("v", "w")]
    text = render([*same, *failed, cell("z", status="skipped", reason="nor there")])
    assert text.count("skipped") == 2
    assert "skipped  x, y  not here" in text
    assert text.count("failed") == 2  # one by one: each may have its own cause
    assert "cold ms" not in text
    assert render([]) == "no records\n"


def test_an_interrupted_row_says_so() -> None:
    assert "(interrupted)" in render([cell("x", samples=(samples(around(1.0), stopped="interrupted"),))])


# -- numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0101234, "0.01012"),
        (0.00271, "0.00271"),
        (12.3456, "12.35"),
        (12345.6, "12,346"),
        (0, "0"),
        (None, "-"),
        (1e9, "1.000e+09"),
        (1e-9, "1.000e-09"),
        (9.99996, "10.00"),
    ],
)
def test_milliseconds(value: float | None, text: str) -> None:
    assert milliseconds(value) == text


def test_other_numbers() -> None:
    assert significant(4390.4) == "4,390"
    assert significant(float("inf")) == "inf"
    assert significant(float("nan")) == "-"
    assert [percent(x) for x in (0.004, 0.019, 0.27, 1.2, None, float("inf"))] == [
        "0.40%",
        "1.9%",
        "27%",
        "120%",
        "-",
        "-",
    ]
    assert [times(x) for x in (1.0, 13.73, 1234.0, None)] == ["1.00x", "13.7x", "1,234x", "-"]
    assert [human_bytes(x) for x in (912, 48_100_000, 3.3e12, 999_999, None)] == [
        "912 B",
        "48.1 MB",
        "3.3 TB",
        "1 MB",
        "-",
    ]
    assert [quantity(n, "edge") for n in (0, 1, 2500)] == ["0 edges", "1 edge", "2,500 edges"]
    assert [quantity(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
    assert clean("a\tb\nc\x07") == "a b\nc\\x07"


# -- plots


def test_histogram_bins_double_and_shares_add_up() -> None:
    text = histogram(np.array([0, 1, 2, 3, 4, 100]), np.array([10, 5, 3, 2, 1, 1]), 60, ascii=True)
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "2-3", "4-7", "8-15", "16-31", "32-63", "64-127"]
    assert [int(line.split()[1]) for line in lines[1:]] == [10, 5, 5, 1, 0, 0, 0, 1]
    assert sum(float(line.split()[2]) for line in lines[1:]) == pytest.approx(100, abs=0.3)
    assert lines[-1].split()[3] == "82.6"
    assert 0 <= 2 * lines[2].count("#") - lines[1].count("#") <= 1
    assert lines[5].count("#") == 0
    assert lines[4].count("#") >= 1
    assert text.isascii()
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize("ascii", [False, True])
def test_histogram_edges(ascii: bool) -> None:
    assert histogram(np.array([], int), np.array([], int), ascii=ascii) == "no rows\n"
    assert "100.0" in histogram(np.array([0]), np.array([7]), ascii=ascii)
    huge = histogram(np.array([1, 2**31]), np.array([2**40, 1]), 80, ascii=ascii)
    assert widest(huge) <= 80
    assert "2,147,483,648-4,294,967,295" in huge


def drawn(matrix: Any, **more: Any) -> str:
    csr = sp.csr_array(matrix)
    return spy(csr.indptr, csr.indices, *csr.shape, **more)


def test_spy_of_a_diagonal_in_both_alphabets() -> None:
    plain = drawn(sp.eye_array(100), width=12, height=7, ascii=True)
    body = ["@@        ", "  @@      ", "    @@    ", "      @@  ", "        @@"]
    assert plain.splitlines() == ["+----------+", *(f"|{line}|" for line in body), "+----------+"]
    dots = drawn(sp.eye_array(8), width=12, height=7)
    assert dots == "┌────┐\n│⠑⢄  │\n│  ⠑⢄│\n└────┘\n"


def test_spy_keeps_proportions_and_its_box() -> None:
    for shape in ((10, 100_000), (100_000, 10), (1, 1), (3, 7), (1000, 1000)):
        for ascii in (False, True):
            text = drawn(
                sp.csr_array(np.ones((1, 1))).resize(shape) or sp.eye_array(*shape), width=50, height=20, ascii=ascii
            )
            assert widest(text) <= 50
            assert len(text.splitlines()) <= 20


def test_a_crowded_spy_plot_uses_shades() -> None:
    left = np.zeros((400, 400))
    left[:, :200] = 1
    left[::40, 200:] = 1
    text = drawn(left, width=22, height=12)
    assert "█" in text
    assert "▒" in text
    assert not any("⠀" < c <= "⣿" for c in text)


def test_spy_of_nothing() -> None:
    assert drawn(sp.csr_array((5, 5)), width=10, height=6, ascii=True).count("@") == 0
    assert "nothing to draw" in spy(np.array([0]), np.array([], np.int32), 0, 5)


def test_spy_of_many_nonzeros_is_a_quick_sample_that_loses_no_diagonal(monkeypatch: pytest.MonkeyPatch) -> None:
    n, per_row = 1_000_000, 18
    row_ptr = np.arange(0, n * per_row + 1, per_row)
    offsets = np.arange(per_row, dtype=np.int32) * (n // per_row)
    col_idx = ((np.arange(n, dtype=np.int32)[:, None] + offsets) % n).ravel()
    begin = time.perf_counter()
    text = spy(row_ptr, col_idx, n, n, 74, 38)
    assert time.perf_counter() - begin < 2
    assert text.endswith("(a sample: 1 of 2 nonzeros)\n")
    whole = text.splitlines()
    monkeypatch.setattr("spgraph_bench.report.plots._SAMPLE", 10**9)
    assert whole[:-1] == spy(row_ptr, col_idx, n, n, 74, 38).splitlines()


@pytest.mark.parametrize(("launched", "shown"), [(0, False), (70, True)])
def test_child_launches_have_a_column_where_there_are_any(launched: int, shown: bool) -> None:
    counters = {"global_atomics": 1, "shared_atomics": 2, "barriers": 3, "kernel_launches": 4}
    cells = [
        cell("a", device=HOST, counters=counters | {"child_launches": 0}),
        cell("b", device=HOST, counters=counters | {"child_launches": launched}),
    ]
    text = render(cells)
    assert ("child launches" in text) == shown
    assert "barriers" in text
