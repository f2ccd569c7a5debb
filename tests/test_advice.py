"""`spgraph advise`: counts, the model, the decision, its sentences, and the command without and with times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import spgraph
from test_scripts import _script

from spgraph_bench.advice import graphs, sentences, spmm, spmv
from spgraph_bench.advice.costs import Cost, Costs, SetUp, fitted
from spgraph_bench.advice.facts import Facts, Stored, facts_of, sectors_of
from spgraph_bench.cli import advise
from spgraph_bench.gpus import H200, get_gpu
from spgraph_bench.matrix import CSR
from spgraph_bench.paths import configs_dir
from spgraph_bench.recipes import make
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import read_records
from spgraph_bench.sweep.config import read_config
from spgraph_bench.variants import variants
from spgraph_bench.variants.marked_rows import HUBS, hub_shape, hubs_on

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "h200"
OWN = {"csr-vector": "csr", "csr-merge": "csr", "sell": "sell", "dia": "dia"}


def _facts(**changes: Any) -> Facts:
    formats = {name: {4: Stored(8_000_000), 8: Stored(12_000_000)} for name in OWN.values()}
    made = Facts(
        rows=100_000,
        cols=100_000,
        nnz=1_000_000,
        row_max=10,
        gini=0.0,
        uneven=1.0,
        one_value=False,
        sectors={4: 0.5, 8: 0.75},
        far={4: 0.5, 8: 0.75},
        hyb_slots={4: 10, 8: 10},
        formats=formats,
    )
    return replace(made, **changes)


def _costs(**base: float) -> Costs:
    """Launches of so many microseconds, everything else free."""
    of = {name.replace("_", "-"): {size: Cost(us, 0, 0, 0, 0, 0) for size in (4, 8)} for name, us in base.items()}
    setup = {name: SetUp(fixed=2.0 if OWN[name] != "csr" else 1.0, entry=0.0) for name in of}
    return Costs("H200", 0, 0, of, setup)


# ---- counts -----------------------------------------------------------------------------------------------


def test_sectors_are_counted_for_each_window() -> None:
    diagonal = make("banded:n=8192,diagonals=1").csr
    assert sectors_of(diagonal, 4) == 1 / 8
    assert sectors_of(diagonal, 8) == 1 / 4
    column = make("dense:rows=64,cols=1").csr
    assert sectors_of(column, 4) == 1 / 64


def test_facts_survive_a_file() -> None:
    facts = facts_of(make("rmat:scale=8").csr, {"csr", "dia", "csr-16"})
    restored = Facts.from_json(json.loads(json.dumps(facts.to_json())))
    assert restored.formats["csr"] == facts.formats["csr"]
    assert restored.formats["dia"][4].refused == "refused"
    assert facts.formats["dia"][4].refused not in (None, "refused")
    assert restored.nnz == facts.nnz
    assert restored.hyb_slots == facts.hyb_slots
    assert restored.uneven == pytest.approx(facts.uneven, rel=1e-5)
    assert restored.to_json() == facts.to_json()


def test_uneven_rows_are_counted_by_warps() -> None:
    assert facts_of(make("banded:n=1000,diagonals=1").csr, ()).uneven == pytest.approx(1024 / 1000)
    star = facts_of(make("star:n=64").csr, ())
    assert star.uneven == pytest.approx((32 * 63 + 32) / 126)


def test_levels_are_those_of_a_search() -> None:
    chain = graphs.graph_facts(make("chain:n=100").csr, True)
    assert (chain.levels, chain.reached, chain.road_like) == (98, 100, True)  # from the second vertex, the first of two
    star = graphs.graph_facts(make("star:n=1000").csr, True)
    assert (star.levels, star.reached, star.road_like) == (1, 1000, False)
    two = graphs.graph_facts(make("star:n=1000").csr, True, hubs=1)
    assert two.hub_share == 0.5


def test_hubs_are_what_the_variant_keeps() -> None:
    for gpu, size, hubs in ((H200, 4, 44_032), (H200, 8, 15_360), (get_gpu("T4"), 4, 5_504), (get_gpu("T4"), 8, 2_752)):
        assert hubs_on(gpu, size) == hubs
        params = {name: tunable.default for name, tunable in HUBS.items()}
        device = SimpleNamespace(kind="cuda", info=lambda gpu=gpu: SimpleNamespace(gpu=gpu))
        job = SimpleNamespace(params=params, device=device, dtype=np.dtype(f"f{size}"))
        assert hub_shape(job, 1 << 20)[2] == hubs
        assert hub_shape(job, 100)[2] == 100
        assert hub_shape(job, 2**31 - 1)[2] == 1  # the kernel adds a column to it


def test_gathers_in_busy_columns_are_counted_apart() -> None:
    """Every row has an entry in column 0, which all multiprocessors keep, and one in a sector of its own."""
    rows = 100
    col = np.array([[0, 8 * row + 8] for row in range(rows)], np.int32).reshape(-1)
    csr = CSR(rows, 8 * rows + 8, np.arange(0, 2 * rows + 1, 2), col, np.ones(2 * rows))
    facts = facts_of(csr, {"csr"})
    assert facts.far == {4: 0.5, 8: 0.5}
    assert facts.sectors == {4: 0.505, 8: 0.505, 32: 0.505}
    far, all_of_them = (spmv.terms(name, "csr", 4, facts, H200) for name in ("csr-hubs", "csr-segmented"))
    assert far.gathers == pytest.approx(all_of_them.gathers * 0.5 / 0.505)


# ---- the model --------------------------------------------------------------------------------------------


def test_a_product_is_what_is_read_at_the_memorys_bandwidth() -> None:
    cost = Cost(base=5, bytes=1, gathers=0, entries=0, rows=0, chain=0)
    counted = spmv.terms("csr-vector", "csr", 4, _facts(), H200)
    us, limit = spmv.predicted_us(cost, counted)
    assert us == pytest.approx(5 + (8_000_000 + 2 * 400_000) / (0.94 * 4.8e6))
    assert limit == "launch"
    half = spmv.terms("csr-vector", "csr", 4, _facts(), replace(H200, bandwidth=2400.0))
    assert half.bytes_us == pytest.approx(2 * counted.bytes_us)


def test_the_longest_row_is_waited_for() -> None:
    cost = Cost(base=5, bytes=1, gathers=0, entries=0, rows=0, chain=0.1)
    facts = _facts(row_max=100_000)
    thread = spmv.predicted_us(cost, spmv.terms("jds", "csr", 4, facts, H200))
    warp = spmv.predicted_us(cost, spmv.terms("csr-vector", "csr", 4, facts, H200))
    assert thread == (pytest.approx(10_000, rel=1e-3), "longest row")
    assert warp[0] == pytest.approx(10_000 / 32, rel=0.1)


def test_steps_of_a_row() -> None:
    """csr-subwarp: four entries a thread, eight threads for rows of 10 in float64 and, two times four, four in float32;
    HYB: slots, and another launch for a rest; DIA: diagonals."""
    facts = _facts(row_max=3200, hyb_slots={4: 20, 8: 10}, nnz=1_500_000)
    assert spmv.terms("csr-subwarp", "csr", 8, facts, H200).chain == 3200 / 4 / 8
    assert spmv.terms("csr-subwarp", "csr", 4, facts, H200).chain == 3200 / 4 / 4
    assert spmv.terms("hyb", "csr", 4, facts, H200).chain == 20 / 40 + 1
    assert spmv.terms("hyb", "csr", 4, replace(facts, row_max=20), H200).chain == 20 / 40
    assert spmv.terms("dia", "dia", 4, facts, H200).chain == 8_000_000 / 4 / 100_000


def test_gathers_of_a_large_x_come_from_memory() -> None:
    small = spmv.terms("csr-vector", "csr", 4, _facts(), H200)
    large = spmv.terms("csr-vector", "csr", 4, _facts(cols=100_000_000), H200)
    assert small.far_us == 0
    assert large.far_us > 0


def test_constants_are_of_own_variants() -> None:
    """A new variant needs none: it is refused until there are records of it."""
    own = {v.name: v.format for v in variants("spmv") if v.library is None and v.where == "gpu"}
    assert set(fitted().spmv) == set(fitted().setup) <= set(own)
    assert set(spmv.NOT_PREDICTED) <= set(own) - set(fitted().spmv)
    facts = facts_of(make("chain:n=9").csr, {"csr"})
    refused = {p.variant: p.refused for p in spmv.predict(facts, H200, 4, {"csr-scalar": "csr", "mine": "csr"})}
    assert refused == {"csr-scalar": spmv.NOT_PREDICTED["csr-scalar"], "mine": "no costs of it are known"}


def test_setup_counts_conversion_upload_and_compiling() -> None:
    costs = Costs("H200", 0, 0, {}, {"sell": SetUp(fixed=1.0, entry=10.0, compile=100.0)})
    assert spmv.setup_ms(costs, "sell", 7_500_000, 1_000_000) == pytest.approx(1 + 10 + 100 + 1)


def test_what_a_variant_stores_beside_its_format_counts() -> None:
    """csr-hubs: 4 bytes an entry, made on the device, so that they take memory but no upload."""
    stored, arrays = spmv.stored_bytes("csr-hubs", 8_000_000, 1_000_000), spmv.stored_bytes("csr-merge", 8_000_000, 7)
    assert (stored, arrays) == (12_000_000, 8_000_000)
    [hubs, merge] = sorted(
        spmv.predict(_facts(), H200, 4, {"csr-hubs": "csr", "csr-merge": "csr"}), key=lambda p: p.variant
    )
    assert (hubs.stored_bytes, merge.stored_bytes) == (12_000_000, 8_000_000)
    assert hubs.setup_ms == spmv.setup_ms(fitted(), "csr-hubs", 8_000_000, 1_000_000)
    small = replace(H200, memory_bytes=12_000_000)
    refused = {p.variant: p.refused for p in spmv.predict(_facts(), small, 4, {"csr-hubs": "csr", "csr-merge": "csr"})}
    assert refused == {"csr-hubs": "more than the memory of the GPU", "csr-merge": None}
    [(way, _)] = sentences.timed([r for r in _records("spmv-rmat18") if r.variant == "csr-hubs"])
    assert way.stored_bytes == 32_565_228 + 4 * 3_939_581


# ---- the decision -----------------------------------------------------------------------------------------


def test_the_fastest_is_taken() -> None:
    choice = spmv.choose(_facts(), H200, 4, OWN, _costs(csr_vector=20, csr_merge=25, sell=10, dia=15))
    assert choice is not None
    assert [p.variant for p in choice.ranked] == ["sell", "dia", "csr-vector", "csr-merge"]
    assert choice.best.variant == "sell"
    assert choice.csr is not None
    assert choice.csr.variant == "csr-vector"


def test_csr_stays_where_the_gain_is_within_the_models_error() -> None:
    near = spmv.choose(_facts(), H200, 4, OWN, _costs(csr_vector=10.2, sell=10, dia=11))
    far = spmv.choose(_facts(), H200, 4, OWN, _costs(csr_vector=10.4, sell=10, dia=11))
    assert near is not None
    assert far is not None
    assert (near.best.variant, far.best.variant) == ("csr-vector", "sell")


def test_what_cannot_run_is_refused_with_a_reason() -> None:
    formats = {**_facts().formats, "dia": {4: Stored(10, "too many diagonals"), 8: Stored(10, "too many diagonals")}}
    facts = replace(_facts(), formats=formats)
    known = {**OWN, "pattern-ell": "pattern-ell", "new": "csr"}
    choice = spmv.choose(facts, H200, 4, known, _costs(csr_vector=20, sell=10, dia=5))
    assert choice is not None
    assert {p.variant: p.refused for p in choice.refused} == {
        "csr-merge": "no costs of it are known",
        "dia": "too many diagonals",
        "new": "no costs of it are known",
        "pattern-ell": "no costs of it are known",
    }
    assert choice.best.variant == "sell"
    tiny = spmv.choose(facts, replace(H200, memory_bytes=1_000_000), 4, OWN, _costs(csr_vector=20, sell=10, dia=5))
    assert tiny is None


def test_only_csr_needs_no_other_format() -> None:
    """As for a matrix that is used where it is: the facts of CSR alone are enough."""
    plain = {v.name: v.format for v in variants("spmv") if v.name in fitted().spmv and v.format == "csr"}
    facts = facts_of(make("poisson2d:n=50").csr, {"csr"})
    choice = spmv.choose(facts, H200, 8, plain)
    assert choice is not None
    assert choice.best.format == "csr"


def test_hubs_are_no_place_for_a_few_threads_per_row() -> None:
    facts = facts_of(make("arrow:n=100000").csr, {"csr"})
    times = {p.variant: p.ms for p in spmv.predict(facts, H200, 4, {"csr-subwarp": "csr", "csr-merge": "csr"})}
    assert times["csr-subwarp"] > 10 * times["csr-merge"]  # type: ignore[operator]


def test_a_dense_matrix_is_not_stored_by_diagonals() -> None:
    """599 diagonals, one after the other in each thread."""
    facts = facts_of(make("dense:rows=300,cols=300").csr, {"csr", "dia", "hyb", "ell"})
    choice = spmv.choose(facts, H200, 8, {"csr-vector": "csr", "dia-jit": "dia", "hyb": "hyb", "ell": "ell"})
    assert choice is not None
    assert choice.best.variant == "csr-vector"


@pytest.mark.parametrize(
    ("recipe", "undirected", "mode"),
    [("grid:n=300", True, "auto"), ("chain:n=3000", True, "auto"), ("rmat:scale=13,symmetrize=1", True, "auto")],
)
def test_modes_of_searches(recipe: str, undirected: bool, mode: str) -> None:
    choice = graphs.choose("bfs", graphs.graph_facts(make(recipe).csr, undirected), H200)
    assert choice.best.variant == mode
    assert choice.baseline.variant == "edge-balanced"
    assert choice.best.ms < choice.baseline.ms


def test_a_directed_graph_is_transposed_for_modes_that_pull() -> None:
    facts = graphs.graph_facts(make("rmat:scale=12").csr, False)
    setup = {mode.variant: mode.setup_ms for mode in graphs.predict("bfs", facts, H200)}
    alike = {mode.variant: mode.setup_ms for mode in graphs.predict("bfs", replace(facts, undirected=True), H200)}
    assert setup["auto"] > 5 * setup["persistent"]
    assert alike["auto"] == alike["persistent"] == setup["persistent"]


@pytest.mark.parametrize(
    ("name", "variant", "ms"),
    [
        ("rmat18", "csr-hubs", 0.0205),
        ("rmat20-edgefactor10", "csr-hubs", None),
        ("poisson2d-2048-random", "dia-jit", 0.0292),
    ],
)
def test_what_was_the_fastest_on_an_h200_is_advised(name: str, variant: str, ms: float | None) -> None:
    known = json.loads((RECORDS / "advice_facts.json").read_text(encoding="utf-8")).values()
    [facts] = [Facts.from_json(entry["facts"]) for entry in known if entry["name"] == name and "facts" in entry]
    choice = spmv.choose(facts, H200, 4, {v.name: v.format for v in variants("spmv") if v.name in fitted().spmv})
    assert choice is not None
    assert choice.best.variant == variant
    assert ms is None or choice.best.ms == pytest.approx(ms, rel=0.1)


def test_hubs_decide_on_pagerank() -> None:
    """With rmat20's counts, of which an H200's records are, and with those of a grid."""
    known = json.loads((RECORDS / "advice_facts.json").read_text(encoding="utf-8")).values()
    of = {entry["name"]: graphs.GraphFacts.from_json(entry["graph"]) for entry in known if "graph" in entry}
    assert graphs.choose("pagerank", of["rmat20-symmetrize1-none"], H200).best.variant == "pull-hubs"
    assert graphs.choose("pagerank", of["grid-1000"], H200).best.variant == "pull"


def test_hubs_of_a_small_graph_are_all_of_its_vertices() -> None:
    facts = graphs.graph_facts(make("chain:n=5").csr, True, 44032)
    assert sentences.about_graph("pagerank", facts) == "the values of all vertices fit in shared memory"


# ---- the sentences ----------------------------------------------------------------------------------------


def test_three_sentences_of_a_conversion() -> None:
    choice = spmv.choose(_facts(), H200, 4, OWN, _costs(csr_vector=20, sell=10))
    assert choice is not None
    assert sentences.sentences(sentences.of_choice(choice, "H200")) == [
        "Use sell (format sell): a product takes 10 us, predicted for the H200; most of it is the launch and first "
        "reads.",
        "That is 2 times as fast as csr-vector, the best kernel of plain CSR (20 us), as predicted.",
        "Its setup of 3.07 ms pays after 100 products (stay with csr-vector for fewer), and it stores 8 MB, 1 times as "
        "much as csr-vector.",
    ]


def test_what_pays_far_sooner_is_named() -> None:
    def way(name: str, ms: float, setup_ms: float) -> sentences.Way:
        return sentences.Way(name, name.partition("-")[0], ms, setup_ms, 8)

    csr, take = way("csr-vector", 0.020, 1), way("dia-jit", 0.010, 501)
    fast, slow, dear = way("ell", 0.012, 5), way("hyb", 0.0199, 1.1), way("sell", 0.011, 490)
    assert sentences._sooner(take, csr, [take, dear, fast, slow]) == fast
    assert sentences._sooner(take, csr, [take, dear, slow]) is None  # too dear, too slow
    assert sentences._sooner(csr, csr, [take, fast]) is None
    gain = sentences.Ratio(2.0, 2.0, 2.0)
    answer = sentences.Answer("spmv", "a product", take, csr, gain, 50_000, predicted_for="H200", sooner=fast)
    assert sentences.sentences(answer)[2] == (
        "Its setup of 501 ms pays after 50,000 products (for fewer than 248,000 take ell, 12 us, whose setup pays "
        "after 500), and it stores 8 B, 1 times as much as csr-vector."
    )


def test_three_sentences_of_staying() -> None:
    choice = spmv.choose(_facts(), H200, 4, OWN, _costs(csr_vector=10, sell=20))
    assert choice is not None
    answer = sentences.of_choice(choice, "H200")
    assert answer.stays
    assert sentences.sentences(answer) == [
        "Stay with CSR: csr-vector takes 10 us for a product, predicted for the H200; most of it is the launch and "
        "first reads.",
        "The fastest in another format, sell (sell), takes 20 us, 2 times as long.",
        "Nothing is converted: setup takes 2.07 ms, and csr-vector stores 8 MB.",
    ]


def _records(name: str, dtype: str = "float32") -> list[Record]:
    return [r for r in read_records(RECORDS / f"{name}.jsonl") if r.dtype == dtype]


def test_sentences_of_measured_times_have_intervals() -> None:
    answer = sentences.of_records(_records("spmv-poisson2d-2048"), "NVIDIA H200")
    assert answer is not None
    assert (answer.take.variant, answer.baseline and answer.baseline.variant) == ("dia-jit", "csr-subwarp")
    assert answer.gain is not None
    assert answer.gain.low < answer.gain.value < answer.gain.high
    first, second, third = sentences.sentences(answer)
    assert first.startswith("Use dia-jit (format dia): a product takes 29.2 us, measured on NVIDIA H200.")
    assert f"({answer.gain.low:.3g} to {answer.gain.high:.3g}) as fast as csr-subwarp" in second
    assert f"pays after {answer.pays_after:,.0f} products" in third
    base = answer.baseline
    assert base is not None
    assert answer.pays_after == pytest.approx(
        np.ceil((answer.take.setup_ms - base.setup_ms) / (base.ms - answer.take.ms))
    )


def test_csr_stays_unless_a_measured_gain_is_sure() -> None:
    records = [r for r in _records("spmv-poisson2d-2048") if r.variant in ("csr-subwarp", "dia-jit")]
    slow, fast = sorted(records, key=lambda r: r.variant)
    alike = replace(fast, samples=slow.samples)
    answer = sentences.of_records([slow, alike], "H200")
    assert answer is not None
    assert answer.stays
    assert "1 times as long" in sentences.sentences(answer)[1]
    within = replace(
        fast, samples=tuple(replace(s, times_ms=tuple(0.98 * t for t in s.times_ms)) for s in slow.samples)
    )
    answer = sentences.of_records([slow, within], "H200")
    assert answer is not None
    assert answer.stays
    assert "a gain of 2 % is too little or too uncertain for a conversion." in sentences.sentences(answer)[1]


def test_no_record_gives_no_answer() -> None:
    assert sentences.of_records([], "H200") is None
    failed = [replace(r, status="failed", reason="x") for r in _records("spmv-bcsstk13")]
    assert sentences.of_records(failed, "H200") is None


def test_a_time_of_pagerank_is_that_of_an_iteration() -> None:
    records = _records("pagerank-rmat20")
    times = {way.variant: way.ms for way, _ in sentences.timed(records)}
    assert times["pull-hubs"] == pytest.approx(1.6909 / 16, rel=1e-3)
    facts = graphs.graph_facts(make("rmat:scale=10,symmetrize=1").csr, True)
    answer = sentences.of_graph_records(records, facts, "H200")
    assert answer is not None
    text = " ".join(sentences.sentences(answer))
    assert "Use --mode pull-hubs: an iteration takes 0.106 ms" in text
    assert "pays after" in text
    assert "iterations." in text


# ---- the command ------------------------------------------------------------------------------------------


def test_the_command_answers_without_a_gpu() -> None:
    done = spgraph("advise", "poisson2d:n=300", "--device", "host")
    assert done.returncode == 0
    assert "poisson2d-300: 90,000 x 90,000, 448,800 entries, spmv, float32" in done.stdout
    assert "predicted for the H200" in done.stdout
    # A slow machine has said by then what it makes.
    notes = [line for line in done.stderr.splitlines() if not line.endswith("...")]
    assert notes == ["the host gives no GPU times: predicted for the H200 (--gpu names another)"]
    assert "measured" not in done.stdout


@pytest.mark.parametrize("problem", ["spmv", "bfs", "pagerank"])
def test_json_says_the_same(problem: str) -> None:
    done = spgraph("advise", "rmat:scale=10,symmetrize=1", "--problem", problem, "--gpu", "A100", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert printed["schema"] == "spgraph-advice-1"
    assert (printed["problem"], printed["gpu"], printed["matrix"]["rows"]) == (problem, "A100", 1024)
    assert len(printed["sentences"]) == 3
    assert printed["candidates"][0]["measured_ms"] is None
    assert printed["answer"]["take"]["variant"] in {c["variant"] for c in printed["candidates"]}
    if problem == "spmv":
        assert printed["refused"]["pattern-csr"]


@pytest.mark.parametrize("problem", ["spmv", "bfs", "pagerank"])
@pytest.mark.parametrize("rows", [0, 3])
def test_a_matrix_without_entries(problem: str, rows: int, tmp_path: Path) -> None:
    path = tmp_path / "none.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate real general\n{rows} {rows} 0\n")
    done = spgraph("advise", str(path), "--problem", problem, "--budget", "0")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "The matrix has no entries: any variant does.")


def test_a_matrix_that_no_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spgraph_bench.gpus.get_gpu", lambda name: replace(H200, name=name, memory_bytes=1000))
    done = spgraph("advise", "chain:n=1000", "--gpu", "Tiny")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "No variant fits into the memory of the Tiny, 1 kB.")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nosuch.mtx"], "no such file"),
        (["chain:n=10", "--budget", "3x"], "'3x' is not a time such as 2s, 500ms or 0."),
        (["chain:n=10", "--budget", "-1"], "is not a time"),
        (["chain:n=10", "--budget", "90000s"], "more than a day"),
        (["chain:n=10", "--gpu", "GT 710"], "no GPU is called 'GT 710'"),
        (["chain:n=10", "--gpu", "T4", "--budget", "1s"], "--budget has no meaning"),
        (["chain:n=10", "--gpu", "T4", "--device", "host"], "--device has no meaning"),
        (["chain:n=10", "--problem", "bfs", "--dtype", "float64"], "--dtype is for spmv and spmm"),
        (["chain:n=10", "--k", "8"], "--k is for spmm"),
        (["chain:n=10", "--problem", "sssp"], "is not one of"),
        (["dense:rows=3,cols=4", "--problem", "bfs", "--budget", "0"], "a graph needs a square matrix"),
    ],
)
def test_bad_input_is_a_line_and_a_remedy(args: Sequence[str], message: str) -> None:
    done = spgraph("advise", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "remedy: " in done.stderr


@pytest.mark.parametrize(("text", "seconds"), [("2s", 2), ("500ms", 0.5), ("1.5", 1.5), ("0", 0), ("1m", 60)])
def test_budgets(text: str, seconds: float) -> None:
    assert advise._Budget().convert(text, None, None) == seconds


def _predicted(budget_setup: float, variants_of: Mapping[str, str] = OWN) -> advise._Predicted:
    costs = _costs(csr_vector=20, csr_merge=25, sell=10, dia=15)
    setup = {**costs.setup, "sell": SetUp(fixed=budget_setup, entry=0.0)}
    choice = spmv.choose(_facts(), H200, 4, variants_of, replace(costs, setup=setup))
    return advise._Predicted(H200, choice)


def test_a_budget_omits_setup_that_takes_more_than_half_of_it() -> None:
    names, left, seconds = advise._to_measure(_predicted(2.0), 2.0)
    assert (names, left) == (["csr-vector", "csr-merge", "sell", "dia"], [])
    assert seconds == pytest.approx(2.0 / 4, rel=0.01)
    names, left, _ = advise._to_measure(_predicted(1500.0), 2.0)
    assert (names, left) == (["csr-vector", "csr-merge", "dia"], ["sell"])
    names, left, seconds = advise._to_measure(_predicted(1500.0), 0.001)
    assert (names, left, seconds) == (["csr-vector", "csr-merge"], ["sell", "dia"], advise._LEAST)


def test_what_is_far_from_the_fastest_is_not_measured() -> None:
    choice = spmv.choose(_facts(), H200, 4, OWN, _costs(csr_vector=20, csr_merge=25, sell=10, dia=21))
    assert choice is not None
    assert spmv.promising(choice)[0] == ["csr-vector", "csr-merge", "sell"]


class _Bench:
    """As :class:`spgraph_bench.cli.running.Opened` is, with records of an H200 in place of runs."""

    def __init__(self, recipe: str, records: Sequence[Record]) -> None:
        self.matrix = make(recipe)
        info = SimpleNamespace(name="NVIDIA H200", gpu=H200)
        self.session = SimpleNamespace(info=lambda: info, release=lambda: None)
        self.all = {r.variant: r for r in records}
        self.records: list[Record] = []
        self.limits: list[float] = []

    def run(self, chosen: Sequence[Any], params: Mapping[str, Any], *, echo: bool, time_limit_s: float) -> None:
        assert not echo
        self.limits.append(time_limit_s)
        self.records += [self.all[v.name] for v in chosen if v.name in self.all]


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> list[_Bench]:
    """The command finds a GPU, on which a run gives the records of poisson2d-300."""
    opened: list[_Bench] = []
    records = _records("spmv-poisson2d-300")

    @contextmanager
    def fake(request: Any) -> Iterator[_Bench]:
        opened.append(_Bench(request.argument, records))
        yield opened[-1]

    monkeypatch.setattr(advise, "opened", fake)
    monkeypatch.setattr(
        "spgraph_bench.device.probe.choose_device", lambda text: SimpleNamespace(name="cuda:0", warning=None, note=None)
    )
    return opened


def test_what_is_promising_is_measured(h200: list[_Bench]) -> None:
    done = spgraph("advise", "poisson2d:n=300,values=random", "--budget", "4s")
    assert done.returncode == 0
    assert "measured on NVIDIA H200" in done.stdout
    assert "measured, ms" in done.stdout
    assert "predicted for" not in done.stdout
    [bench] = h200
    measured = [r.variant for r in bench.records]
    assert 3 <= len(measured) <= 6
    assert any(r.format == "csr" for r in bench.records)
    assert 0 < bench.limits[0] * len(measured) <= 4
    fastest = min((r for r in bench.records), key=lambda r: np.median(r.sampled("cold").times_ms))  # type: ignore[union-attr]
    assert fastest.variant in done.stdout.split("\n\n")[1]


def test_a_wrong_variant_is_a_warning_and_ends_with_1(h200: list[_Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    before = _Bench.run

    def run(self: _Bench, *args: Any, **named: Any) -> None:
        before(self, *args, **named)
        self.records[0] = replace(self.records[0], status="wrong", reason="row 3 is off")

    monkeypatch.setattr(_Bench, "run", run)
    done = spgraph("advise", "poisson2d:n=300,values=random")
    assert done.returncode == 1
    assert "is wrong: row 3 is off" in done.stderr


def test_nothing_measured_is_a_warning(h200: list[_Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Bench, "run", lambda self, *args, **named: None)
    done = spgraph("advise", "poisson2d:n=300,values=random")
    assert "warning: nothing could be measured: this is predicted" in done.stderr
    assert "predicted for the H200" in done.stdout


def test_the_command_runs_variants_as_bench_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it but a GPU: what is emulated gives no times, so that the prediction is what is shown."""
    from spgraph_bench.device.probe import choose_device

    answers = iter([SimpleNamespace(name="cuda:0", warning=None, note=None), choose_device("host")])
    monkeypatch.setattr("spgraph_bench.device.probe.choose_device", lambda text: next(answers))
    monkeypatch.setattr(advise, "_to_measure", lambda predicted, budget: (["csr-scalar"], [], 0.02))
    done = spgraph("advise", "poisson2d:n=8")
    assert done.returncode == 0
    assert "measured 1 of " in done.stderr
    assert "warning: nothing could be measured: this is predicted" in done.stderr
    assert "poisson2d-8: 64 x 64" in done.stdout


@pytest.mark.gpu
@pytest.mark.gpu_alone
@pytest.mark.parametrize(
    ("recipe", "problem"),
    [("poisson2d:n=300", "spmv"), ("rmat:scale=12,symmetrize=1", "bfs"), ("rmat:scale=12,symmetrize=1", "pagerank")],
)
def test_a_gpu_is_measured_on(recipe: str, problem: str) -> None:
    done = spgraph("advise", recipe, "--problem", problem, "--device", "cuda", "--json")
    assert done.returncode == 0
    printed = json.loads(done.stdout)
    assert printed["answer"]["measured_on"]
    times = {c["variant"]: c["measured_ms"] for c in printed["candidates"] if c["measured_ms"]}
    assert len(times) > 1
    assert times[printed["answer"]["take"]["variant"]] <= 1.1 * min(times.values())


# ---- SpMM -------------------------------------------------------------------------------------------------


def _spmm(recipe: str, k: int = 32, size: int = 4) -> spmv.Choice:
    own = {v.name: v.format for v in variants("spmm") if v.kernel}
    choice = spmm.choose(facts_of(make(recipe).csr), H200, size, k, own)
    assert choice is not None
    return choice


def test_constants_of_spmm_are_of_own_variants() -> None:
    own = {v.name for v in variants("spmm") if v.kernel}
    assert set(fitted().spmm) == set(fitted().spmm_setup) == own - set(spmm.NOT_PREDICTED)
    refused = {p.variant: p.refused for p in _spmm("poisson2d:n=20").refused}
    assert refused["csr-element"] == spmm.NOT_PREDICTED["csr-element"]
    assert refused["bsr"]  # no block is full enough
    assert spmm.COLUMN_MAJOR in own


@pytest.mark.parametrize("k", [1, 8, 32, 128, 512])
def test_hubs_decide_on_the_kernel_of_csr(k: int) -> None:
    for recipe, csr in (("poisson2d:n=100", "csr-row"), ("arrow:n=20000", "csr-tile"), ("star:n=20000", "csr-tile")):
        for size in (4, 8):
            choice = _spmm(recipe, k, size)
            assert choice.csr is not None
            assert choice.csr.variant == csr, (recipe, size)


def test_more_columns_take_longer() -> None:
    times = [_spmm("uniform:n=20000,degree=10", k).best.ms for k in (1, 8, 32, 128)]
    assert times == sorted(times, key=lambda ms: ms or 0.0)
    four, eight = (_spmm("uniform:n=20000,degree=10", 32, size).best.ms for size in (4, 8))
    assert four is not None
    assert eight is not None
    assert four < eight


def test_blocks_read_a_row_of_x_once() -> None:
    facts = facts_of(make("blocks:n=40,block=4").csr, {"csr", "bsr"})
    plain, dense = (spmm.terms("bsr", form, 4, 32, facts, H200) for form in ("csr", "bsr"))
    assert 3 < plain.gathers / dense.gathers < 5
    assert spmm.choose(facts, replace(H200, memory_bytes=1_000_000), 4, 32, {"csr-row": "csr", "bsr": "bsr"}) is None


def test_the_choice_of_spmm_was_near_the_fastest() -> None:
    script = _script("judge_advice")
    records = script.observed([RECORDS / "advice_spmm.csv"])
    known = json.loads(script.FACTS.read_text(encoding="utf-8"))
    facts = {sha: Facts.from_json(of["facts"]) for sha, of in known.items() if "facts" in of}
    judged = script.judge_spmm(records, facts, lambda shape: fitted())
    assert len(judged) == 30
    assert np.mean([j.regret for j in judged]) < 0.04
    assert max(j.csr_regret for j in judged) < 0.1
    assert min(j.cusparse for j in judged) > 0.95
    made = script.spmm_table([replace(judged[0], cusparse=None, regret=0.5, chosen="bsr")])
    assert f"50% ({judged[0].name}: bsr)" in made
    assert made.endswith("| - | - |\n\ncuSPARSE's is faster in 0 of 1.\n")


def test_spmm_is_advised_on_by_the_command() -> None:
    done = spgraph("advise", "arrow:n=3000", "--problem", "spmm", "--k", "8", "--gpu", "H200", "--json")
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert (data["problem"], data["k"], data["answer"]["take"]["variant"]) == ("spmm", 8, "csr-tile")
    assert {each["variant"] for each in data["candidates"]} >= {"csr-row", "csr-tile"}
    done = spgraph("advise", "poisson2d:n=30", "--problem", "spmm", "--gpu", "H200")
    assert "spmm, k = 32, float32" in done.stdout


def test_sentences_of_measured_spmm() -> None:
    answer = sentences.of_records(_records("spmm-cage10-k32"), "NVIDIA H200")
    assert answer is not None
    assert (answer.problem, answer.take.variant, answer.stays) == ("spmm", "csr-row", True)
    first, _, third = sentences.sentences(answer)
    assert first.startswith("Stay with CSR: csr-row takes ")
    assert third.startswith("Nothing is converted: ")


def test_sentences_of_spmm_name_the_format() -> None:
    first, second, third = sentences.sentences(sentences.of_choice(_spmm("poisson2d:n=100", 8), "H200", "spmm"))
    assert first.startswith("Use ell (format ell): a product takes ")
    assert "as fast as csr-row, the best kernel of plain CSR" in second
    assert "times as much as csr-row" in third


@pytest.mark.parametrize(("problem", "what"), [("spmv", "x"), ("spmm", "rows of X")])
def test_sentences_say_what_is_gathered(problem: str, what: str) -> None:
    best = replace(_spmm("poisson2d:n=20").best, limit="gathers")
    answer = sentences.of_choice(spmv.Choice(best, best, (best,), ()), "H200", problem)
    assert f"; most of it is gathering {what} from the L2." in sentences.sentences(answer)[0]


# ---- the script -------------------------------------------------------------------------------------------


def test_the_constants_are_those_that_the_records_give() -> None:
    script = _script("judge_advice")
    records = script.observed(script._files([RECORDS]))
    known = json.loads(script.FACTS.read_text(encoding="utf-8"))
    facts = {sha: Facts.from_json(of["facts"]) for sha, of in known.items() if "facts" in of}
    of_graphs = {sha: graphs.GraphFacts.from_json(of["graph"]) for sha, of in known.items() if "graph" in of}
    assert script.to_toml(script.fit(records, facts, of_graphs)) == script.COSTS.read_text(encoding="utf-8")
    judged = script.judge(records, facts, script.adviser(fitted()))
    assert np.mean([j.regret <= 0.1 for j in judged]) >= 0.85
    assert np.mean([j.regret for j in judged]) < 0.04


@pytest.fixture(scope="module")
def script() -> Any:
    return _script("judge_advice")


def test_condensed_records_are_judged_alike(script: Any, tmp_path: Path) -> None:
    paths = sorted(RECORDS.glob("spmv-[bcp]*.jsonl")) + sorted(RECORDS.glob("bfs-*.jsonl"))
    condensed = tmp_path / "some.csv"
    assert script.main(["condense", *map(str, paths), "-o", str(condensed)]) == 0
    full, short = script.observed(paths), script.observed([condensed])
    assert {o.problem for o in full} == {"spmv", "bfs"}
    assert len(full) == len(short)
    times = ("ms", "setup_ms", "compile_ms")
    for a, b in zip(full, short, strict=True):
        assert replace(a, **{name: getattr(b, name) for name in times}) == b
        assert [getattr(b, name) for name in times] == pytest.approx([getattr(a, name) for name in times], rel=1e-5)
        assert a.gpu == "NVIDIA H200"
    known = json.loads(script.FACTS.read_text(encoding="utf-8"))
    facts = {sha: Facts.from_json(of["facts"]) for sha, of in known.items() if "facts" in of}
    of_graphs = {sha: graphs.GraphFacts.from_json(of["graph"]) for sha, of in known.items() if "graph" in of}
    pairs = zip(*(script.judge(some, facts, script.adviser(fitted())) for some in (full, short)), strict=True)
    for before, after in pairs:
        assert (before.chosen, before.best, before.csr_chosen) == (after.chosen, after.best, after.csr_chosen)
        assert after.regret == pytest.approx(before.regret, abs=1e-5)
    modes = [script.judge_modes(some, of_graphs, lambda o: fitted()) for some in (full, short)]
    assert script.graph_table(modes[0]) == script.graph_table(modes[1])
    again = tmp_path / "again.csv"
    assert script.main(["condense", str(condensed), "-o", str(again)]) == 0
    assert again.read_bytes() == condensed.read_bytes()


def test_condensed_records_count_where_both_have_a_cell(script: Any, tmp_path: Path) -> None:
    source = RECORDS / "spmv-bcsstk13.jsonl"
    (tmp_path / "spmv.jsonl").write_bytes(source.read_bytes())
    one = replace(script.observed([source])[0], ms=77.0, setup_ms=2.0)
    assert script.condense([one], tmp_path / "advice_one.csv") == 1
    script.condense([one], tmp_path / "other.csv")
    files = script._files([tmp_path])
    assert [file.name for file in files] == ["spmv.jsonl", "advice_one.csv"]
    merged = script.observed(files)
    assert len(merged) == len(script.observed([source]))
    assert [o for o in merged if o.ms == 77.0] == [one]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n1,2\n", "not condensed records"), ("{header}\nspmv,csr-merge,csr,4,abc,m,fast,1,0,9,s,g,c\n", "fast")],
)
def test_another_csv_file_is_no_record(
    script: Any, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.condense([], tmp_path / "empty.csv")
    path = tmp_path / "wrong.csv"
    path.write_text(text.replace("{header}", (tmp_path / "empty.csv").read_text().strip()))
    assert script.main(["fit", str(path), "-o", str(tmp_path / "costs.toml")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "remedy: judge_advice.py condense" in err
    assert script.main(["condense", str(path), "-o", str(tmp_path / "costs.toml")]) == 2
    assert "-o FILE.csv" in capsys.readouterr().err


def test_the_choice_on_csr_is_held_against_cusparse(script: Any) -> None:
    def observed(variant: str, ms: float, size: int = 4) -> Any:
        return script.Observed("spmv", variant, "csr", size, "a", "m", ms, 1.0, 0.0, 100, "rmat")

    def chooser(facts: Facts, size: int, names: Mapping[str, str]) -> tuple[str, list[str]]:
        return ("csr-hubs" if "csr-hubs" in names else "csr-merge"), []

    own = [observed("csr-merge", 1.2), observed("csr-vector", 1.0), observed("csr-merge", 1.0, size=8)]
    theirs = [observed("cusparse-csr-1", 3.0), observed("cusparse-csr-2", 1.5)]
    [judged] = script.judge_csr(own, theirs, {"a": _facts()}, chooser)
    assert (judged.chosen, judged.missing) == ("csr-merge", True)
    assert (judged.regret, judged.cusparse) == (pytest.approx(0.2), pytest.approx(1.25))
    made = script.csr_table([judged, replace(judged, cusparse=0.9, missing=False)])
    assert "| recipes, float32 | 2 | 20%, 20% (m: csr-merge) | 1.06 | 0.9 (m: csr-merge) |" in made
    assert "cuSPARSE's is faster in 1 of 2: m float32 (0.9)." in made
    assert "was not measured, in m float32:" in made


def test_a_choice_is_judged_by_the_time_it_takes() -> None:
    script = _script("judge_advice")

    def observed(variant: str, ms: float) -> Any:
        return script.Observed("spmv", variant, OWN[variant], 4, "a", "m", ms, 1.0, 0.0, 100)

    records = [observed("csr-vector", 1.0), observed("csr-merge", 1.5), observed("sell", 1.2)]
    [judged] = script.judge(
        records, {"a": _facts()}, lambda facts, size, names: ("sell" if "sell" in names else "csr-vector", list(names))
    )
    assert (judged.chosen, judged.best) == ("sell", "csr-vector")
    assert judged.regret == pytest.approx(0.2)
    assert judged.measured == 0
    assert judged.csr == 0


@pytest.mark.parametrize("name", ["bfs-grid-1000", "spmv-cage10"])
def test_records_of_one_recipe_cannot_be_judged(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = _script("judge_advice")
    assert script.main(["loo", str(RECORDS / f"{name}.jsonl")]) == 2
    assert "of another recipe than those fitted on" in capsys.readouterr().err


def test_split_judges_on_other_matrices_than_it_fits_on(capsys: pytest.CaptureFixture[str]) -> None:
    script = _script("judge_advice")
    path = str(RECORDS / "spmv-bcsstk13.jsonl")
    assert script.main(["split", path, path]) == 2
    assert "1 matrices are in both sets" in capsys.readouterr().err


def _shapes(name: str) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Of each problem of a config the matrices, in their orders, whatever their values and seed are."""
    shapes: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for entry in read_config(configs_dir() / f"{name}.toml").entries:
        for given in entry.inputs:
            assert given.kind == "recipe"  # no network, no files of anybody's
            parts = [part for part in given.text.split(",") if part.partition("=")[0] not in ("seed", "values")]
            shapes.setdefault(entry.problem, []).append((",".join(parts), entry.reorder))
    return shapes


def test_advice_is_judged_on_other_shapes_than_it_is_fitted_on() -> None:
    fitted_on, judged_on = _shapes("advise-fitted"), _shapes("advise")
    for problem, shapes in fitted_on.items():
        assert not set(shapes) & set(judged_on[problem]), problem
    page = (ROOT / "docs" / "advice.md").read_text(encoding="utf-8")
    for name, shapes_of in (("advise-fitted", fitted_on), ("advise", judged_on)):
        [line] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        numbers = [int(cell) for cell in re.findall(r"\| (\d+) (?=\|)", line)]
        assert numbers == [len(shapes_of.get(problem, ())) for problem in ("spmv", "bfs", "pagerank")]


def test_a_sweep_is_counted_before_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, store = _script("judge_advice"), tmp_path / "facts.json"
    words = ["rmat:scale=6", "--problem", "spmv", "--problem", "bfs"]
    assert script.main(["count-ahead", "--facts", str(store), *words]) == 0
    assert script.main(["count-ahead", "--facts", str(store), *words[:3], "--reorder", "degree"]) == 0
    plain, degree = sorted(json.loads(store.read_text()).items(), key=lambda item: len(item[0]))
    assert plain[1].keys() == {"name", "facts", "graph"}
    assert degree[0] == f"{plain[0]}-degree"
    assert degree[1]["name"] == "rmat6, degree"
    capsys.readouterr()
    assert script.main(["count-ahead", "--facts", str(store), *words[:3], "--reorder", "degree"]) == 0
    assert capsys.readouterr().out == ""  # counted once
    assert script.main(["count-ahead", "--problem", "spmv", "rmat:scale=6", "--facts", str(store)]) == 0
    assert script.main(["count-ahead", "--facts", str(store), "no-such-file"]) == 2
    wide = tmp_path / "wide.mtx"
    wide.write_text("%%MatrixMarket matrix coordinate real general\n3 4 2\n1 1 1\n2 4 1\n")
    assert script.main(["count-ahead", "--facts", str(store), str(wide), "--problem", "bfs"]) == 2


def test_a_file_that_holds_no_counts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, store = _script("judge_advice"), tmp_path / "facts.json"
    for text in ("root:x:0", "[1]", '{"a": 1}', '{"a": {"facts": {"rows": 1, "formats": {}}}}'):
        store.write_text(text)
        assert script.main(["loo", "--facts", str(store), str(RECORDS)]) == 2
        assert re.fullmatch(rf"error: {store}: .*\n  remedy: .*\n", capsys.readouterr().err)
    store.write_text("root:x:0")
    assert script.main(["count-ahead", "--facts", str(store), "rmat:scale=6"]) == 2


def test_the_example_of_the_page_is_what_is_printed() -> None:
    page = (ROOT / "docs" / "advice.md").read_text(encoding="utf-8")
    shown, _, rest = page.partition("$ spgraph advise poisson2d:n=500 --gpu H200\n")[2].partition("...\n```")
    done = spgraph("advise", "poisson2d:n=500", "--gpu", "H200")
    printed = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
    assert shown
    assert rest
    assert printed.startswith(shown)


@pytest.mark.parametrize(
    "words",
    [
        ["split", str(RECORDS / "advice_fitted.csv"), str(RECORDS / "advice_judged.csv")],
        ["csr", str(RECORDS)],
        ["spmm", str(RECORDS / "advice_spmm.csv")],
        pytest.param(["loo", str(RECORDS)], marks=pytest.mark.slow),
    ],
    ids=lambda words: str(words[0]),
)
def test_the_page_has_the_tables_that_the_script_makes(
    script: Any, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "advice.md").read_text(encoding="utf-8")
    monkeypatch.setattr(script, "PAGE", tmp_path / "page.md")
    script.PAGE.write_text(page, encoding="utf-8")
    assert script.main([*words, "--write"]) == 0
    assert script.PAGE.read_text(encoding="utf-8") == page
