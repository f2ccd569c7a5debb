"""Claims: each rule on numbers made for it, both ways; what is missing is said; the command."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.claims import Claim, Evidence, Figure, Run, Verdict, claims, judge_records
from spgraph_bench.claims.base import NotMeasuredError, over
from spgraph_bench.claims.judging import judge
from spgraph_bench.cli.main import run
from spgraph_bench.device import host_compiler
from spgraph_bench.errors import InputError
from spgraph_bench.results.record import Record, Samples
from spgraph_bench.results.store import read_records
from spgraph_bench.toolchain.sources import kernel_tokens
from spgraph_bench.variants import get_variant, select

RESULTS = Path(__file__).resolve().parent.parent / "results" / "h200"


def _record(problem: str, variant: str, ms: float | None = None, *, kind: str = "cuda", **fields: Any) -> Record:
    of = get_variant(problem, variant)
    samples = ()
    if ms is not None:
        times = tuple(ms * f for f in (0.99, 1.0, 1.0, 1.0, 1.0, 1.0, 1.01))
        samples = (Samples("cold", times, "cuda-events", True, 3, "converged"),)
    source = "spmv/csr_scalar.cu"
    modules = ({"source": source, "tokens": kernel_tokens(source), "options": [], "ms": 1.0, "for_matrix": False},)
    matrix = {"name": "m", "sha256": "s", "nnz": 1_000_000, **fields.pop("matrix", {})}
    plain = Record(
        problem,
        variant,
        of.format,
        of.library,
        of.where,
        "float32",
        matrix,
        {"kind": kind, "name": "GPU" if kind == "cuda" else "host, CPU", "uuid": "u"},
        {"code": "c"},
        "run",
        "ok",
        samples=samples,
        modules=() if of.library else modules,
    )
    return dataclasses.replace(plain, **fields)


def _times(problem: str, **ms: float) -> list[Record]:
    return [_record(problem, name.replace("_", "-"), value) for name, value in ms.items()]


def _stored(**sizes: int) -> list[Record]:
    return [_record("spmv", n.replace("_", "-"), kind="host", bytes={"stored": b}) for n, b in sizes.items()]


def _counted(problem: str, counter: str, **counts: int) -> list[Record]:
    return [_record(problem, n.replace("_", "-"), kind="host", counters={counter: c}) for n, c in counts.items()]


def _launch(**us: float) -> list[Record]:
    """Cases of 10,000 empty tasks, `us` each."""
    made = []
    for name, each in us.items():
        samples = Samples("cold", tuple([each * 10] * 7), "cuda-events", True, 3, "converged", cases=(0,) * 7)
        case = {"tasks": 10_000, "items": 0}
        made.append(_record("launch", name.replace("_", "-"), samples=(samples,), cases=(case,)))
    return made


def _even(*points: tuple[float, float]) -> list[Record]:
    """Break-even: children at a time, and us."""
    points_measured = tuple({"children": n, "us": us, "low_us": us * 0.9, "high_us": us * 1.1} for n, us in points)
    return [_record("launch", "fire-and-forget", 1.0, break_even=points_measured)]


def _points(uniform: int, flattened: int) -> list[Record]:
    both = {"uniform": uniform, "flattened": flattened}
    return [_record("bezier", n, kind="host", facts={"points": p}) for n, p in both.items()]


def _inspected(frontier: int, direction: int) -> list[Record]:
    both = {"frontier": frontier, "direction": direction}
    return [_record("bfs", n, kind="host", inspected=i) for n, i in both.items()]


def _pays(convert: Mapping[str, float], **ms: float) -> list[Record]:
    """Times, and what each conversion takes in ms."""
    made = _times("spmv", **ms)
    return [dataclasses.replace(r, times={"convert_ms": convert.get(r.variant, 0.0)}) for r in made]


Case = tuple[str, str, Callable[[], Sequence[Sequence[Record]]]]
CASES: list[Case] = [
    (
        "coo-irregular",
        "holds",
        lambda: [_times("spmv", coo_segmented=2, csr_scalar=50), _times("spmv", coo_segmented=1, csr_scalar=1)],
    ),
    (
        "coo-irregular",
        "holds if",
        lambda: [_times("spmv", coo_segmented=8, csr_scalar=10), _times("spmv", coo_segmented=1, csr_scalar=1)],
    ),
    (
        "coo-irregular",
        "does not",
        lambda: [_times("spmv", coo_segmented=9, csr_scalar=5), _times("spmv", coo_segmented=1, csr_scalar=1)],
    ),
    ("hyb-csr", "holds", lambda: [_times("spmv", hyb=1, csr_scalar=9, csr_vector=3, csr_adaptive=2)]),
    ("hyb-csr", "holds if", lambda: [_times("spmv", hyb=1, csr_scalar=9, csr_vector=3, csr_adaptive=1.1)]),
    ("hyb-csr", "does not", lambda: [_times("spmv", hyb=1, csr_scalar=1.4, csr_vector=1.3, csr_adaptive=0.9)]),
    ("jds-leanest", "holds", lambda: [_stored(jds=1, csr_scalar=2, ell=3, hyb=3, sell=3, coo_segmented=3)] * 2),
    ("jds-leanest", "holds if", lambda: [_stored(jds=5, csr_scalar=4, ell=9, hyb=9, sell=9, coo_segmented=9)] * 2),
    ("jds-leanest", "does not", lambda: [_stored(jds=5, csr_scalar=6, ell=9, hyb=4, sell=9, coo_segmented=9)] * 2),
    ("ell-padding", "holds", lambda: [_stored(ell=100, csr_scalar=1), _stored(ell=1, csr_scalar=1)]),
    ("ell-padding", "holds if", lambda: [_stored(ell=3, csr_scalar=1), _stored(ell=1, csr_scalar=1)]),
    ("ell-padding", "does not", lambda: [_stored(ell=1, csr_scalar=1), _stored(ell=1, csr_scalar=1)]),
    ("conversion", "holds if", lambda: [_pays({"sell": 100.0}, sell=0.5, csr_adaptive=1.0)]),
    ("conversion", "does not", lambda: [_pays({"sell": 100.0}, sell=2.0, csr_adaptive=1.0)]),
    ("edge-centric", "holds", lambda: [_times("bfs", edge=9, push=2, frontier=1)]),
    ("edge-centric", "holds if", lambda: [_times("bfs", edge=2, push=9, frontier=1)]),
    ("edge-centric", "does not", lambda: [_times("bfs", edge=1, push=9, frontier=8)]),
    ("privatisation", "holds", lambda: [_counted("bfs", "reservations", frontier=1000, frontier_private=10)]),
    ("privatisation", "holds if", lambda: [_counted("bfs", "reservations", frontier=1000, frontier_private=400)]),
    ("privatisation", "does not", lambda: [_counted("bfs", "reservations", frontier=1000, frontier_private=990)]),
    ("privatisation", "holds", lambda: [_times("bfs", frontier=2, frontier_private=1)]),
    ("privatisation", "holds if", lambda: [_times("bfs", frontier=1, frontier_private=2)]),
    ("direction", "holds", lambda: [_inspected(1000, 100)]),
    ("direction", "holds if", lambda: [_inspected(1000, 500)]),
    ("direction", "does not", lambda: [_inspected(1000, 990)]),
    ("direction", "holds", lambda: [_times("bfs", auto=1, direction=2, persistent=7, frontier=20)]),
    ("direction", "holds if", lambda: [_times("bfs", auto=1, direction=2, persistent=3, frontier=20)]),
    ("direction", "does not", lambda: [_times("bfs", auto=1, direction=2, persistent=3, frontier=4)]),
    ("pagerank-pull", "holds", lambda: [_counted("pagerank", "global_atomics", pull=10, push=100_000)]),
    ("pagerank-pull", "does not", lambda: [_counted("pagerank", "global_atomics", pull=10, push=20)]),
    ("pagerank-pull", "holds", lambda: [_times("pagerank", pull=1, pull_naive=2, push=5)]),
    ("pagerank-pull", "holds if", lambda: [_times("pagerank", pull=1, pull_naive=9, push=5)]),
    ("pagerank-pull", "does not", lambda: [_times("pagerank", pull=6, pull_naive=9, push=5)]),
    ("levels-launches", "holds", lambda: [_launch(host_loop=6, host_readback=9, one_block=0.1)]),
    ("levels-launches", "holds if", lambda: [_launch(host_loop=6, host_readback=21, one_block=0.1)]),
    ("levels-launches", "does not", lambda: [_launch(host_loop=2, host_readback=3, one_block=0.1)]),
    ("child-launches", "holds", lambda: [_even((1, 20), (1000, 25))]),
    ("child-launches", "holds if", lambda: [_even((1, 20), (1000, 400))]),
    ("adaptive-curves", "holds", lambda: [_points(2560, 500), _points(2560, 600)]),
    ("adaptive-curves", "holds if", lambda: [_points(2560, 500), _points(2560, 1280)]),
    ("adaptive-curves", "does not", lambda: [_points(2560, 1000), _points(2560, 1280)]),
    ("gpu-cpu", "holds", lambda: [_times("spmv", csr_adaptive=1, scipy=20), _times("bfs", auto=1, graphblas=10)]),
    ("gpu-cpu", "holds if", lambda: [_times("spmv", csr_adaptive=1, scipy=90), _times("bfs", auto=1, graphblas=10)]),
    ("gpu-cpu", "does not", lambda: [_times("spmv", csr_adaptive=1, scipy=90), _times("bfs", auto=1, graphblas=80)]),
]


@pytest.mark.parametrize(
    ("name", "status", "records"), CASES, ids=[f"{n}-{s}-{i}" for i, (n, s, _) in enumerate(CASES)]
)
def test_rules(name: str, status: str, records: Callable[[], Sequence[Sequence[Record]]]) -> None:
    verdict = judge(claims()[name], records())
    assert (verdict.status, bool(verdict.figures), bool(verdict.why)) == (status, True, True)
    assert verdict.changed == ()


def test_every_rule_is_tried_both_ways() -> None:
    tried: dict[str, set[str]] = {}
    for name, status, _ in CASES:
        tried.setdefault(name, set()).add(status)
    assert set(tried) == set(claims())
    assert [name for name, verdicts in tried.items() if len(verdicts) < 2] == []


@pytest.mark.parametrize("claim", claims().values(), ids=lambda c: c.name)
def test_runs_name_what_there_is(claim: Claim) -> None:
    for wanted in claim.runs:
        named = [select(wanted.problem, [glob]) for glob in wanted.variants]
        assert all(
            names for glob, names in zip(wanted.variants, named, strict=True) if glob not in ("mkl*", "graphblas")
        )
    assert claim.text.endswith(".")
    assert judge(claim, [[] for _ in claim.runs]).status == "not measured"


def test_what_is_about_times_needs_a_gpu() -> None:
    emulated = [_record("spmv", n, kind="host") for n in ("hyb", "csr-scalar", "csr-adaptive")]
    assert judge(claims()["hyb-csr"], [emulated]).status == "needs a GPU"
    untimed = [_record("spmv", n) for n in ("hyb", "csr-scalar", "csr-adaptive")]
    verdict = judge(claims()["hyb-csr"], [untimed])
    assert (verdict.status, verdict.why) == ("not measured", "hyb was not timed")
    wrong = _record("spmv", "hyb", 1.0, status="wrong", reason="row 3")
    assert judge(claims()["hyb-csr"], [[wrong]]).why == "hyb is wrong: row 3"


def test_a_changed_kernel_is_reported() -> None:
    records = _times("spmv", hyb=1, csr_scalar=9, csr_vector=3, csr_adaptive=2)
    old = tuple({**m, "tokens": "other"} for m in records[0].modules)
    records[0] = dataclasses.replace(records[0], modules=old)
    assert judge(claims()["hyb-csr"], [records]).changed == ("spmv/csr_scalar.cu",)
    records[1] = dataclasses.replace(records[1], modules=old)  # csr-scalar: no figure is taken from it
    records[0] = dataclasses.replace(records[0], modules=records[3].modules)
    assert judge(claims()["hyb-csr"], [records]).changed == ()


def test_intervals_of_ratios_are_wide_enough() -> None:
    ratio = over("r", Figure("a", 4, 3, 5), Figure("b", 2, 1, 2.5))
    assert (ratio.value, ratio.low, ratio.high) == (2, 3 / 2.5, 5)
    assert over("r", Figure("a", 4), Figure("b", 2, 1, 3)).low is None
    with pytest.raises(NotMeasuredError, match="hyb was not run"):
        Evidence([[]]).time(0, "hyb")


def test_records_of_another_gpu_or_input_are_not_mixed_in() -> None:
    source = {"source": {"text": "rmat:scale=18,edgefactor=16,a=0.57,b=0.19,c=0.19,symmetrize=0,values=random,seed=1"}}
    good = [
        dataclasses.replace(r, matrix={**r.matrix, **source}) for r in _times("spmv", hyb=1, csr_vector=3, csr_merge=2)
    ]
    slow = [dataclasses.replace(r, device={**r.device, "uuid": "other"}) for r in good[:1]]
    elsewhere = _times("spmv", hyb=9)
    (judged,) = judge_records([claims()["hyb-csr"]], [*slow, *elsewhere, *good])
    assert judged.verdict.status == "holds"
    (judged,) = judge_records([claims()["hyb-csr"]], elsewhere)
    assert judged.verdict.status == "not measured"


def test_verdicts_of_the_h200() -> None:
    judged = {j.claim.name: j.verdict.status for j in judge_records([*claims().values()], read_records(RESULTS))}
    decided = {name: status for name, status in judged.items() if status != "not measured"}
    assert len(decided) >= 10
    assert "needs a GPU" not in decided.values()


# ---- the command -------------------------------------------------------------------------------------------


@pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))
def test_the_command_on_the_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--device", "host", "--in-process", "--results", str(tmp_path)]
    assert run(["claims", "ell-padding", "hyb-csr", *own]) == 0
    out = capsys.readouterr().out
    assert "ell-padding  holds" in out
    assert "hyb-csr  needs a GPU" in out
    assert out.splitlines()[-1].startswith("2 claims on ")
    stored = read_records(tmp_path)
    assert {r.variant for r in stored} == {"ell", "csr-scalar"}
    assert run(["claims", "ell-padding", "--records", str(tmp_path), "--json"]) == 0
    (claim,) = json.loads(capsys.readouterr().out)["claims"]
    assert (claim["verdict"], len(claim["measured"])) == ("holds", 2)


def test_an_interrupt_shows_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = iter([_points(2560, 500), _points(2560, 1280)])

    def bench(*args: Any, on_record: Callable[[Record], None], **options: Any) -> list[Record]:
        if (records := next(made, None)) is None:
            raise KeyboardInterrupt
        for record in records:
            on_record(record)
        return records

    monkeypatch.setattr("spgraph_bench.api.bench", bench)
    args = ["claims", "adaptive-curves", "direction", "--device", "host", "--results", str(tmp_path)]
    assert run(args) == 130
    out = capsys.readouterr().out
    assert "adaptive-curves  holds if" in out
    assert "1 claim on" in out
    assert len(read_records(tmp_path)) == 4


@pytest.mark.parametrize(("status", "expected"), [("ok", 0), ("skipped", 0), ("wrong", 1), ("failed", 1)])
def test_the_status_tells_of_wrong_variants(
    status: Any, expected: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bench(*args: Any, on_record: Callable[[Record], None], **options: Any) -> list[Record]:
        records = [dataclasses.replace(r, status=status, reason="so") for r in _points(2560, 500)]
        for record in records:
            on_record(record)
        return records

    monkeypatch.setattr("spgraph_bench.api.bench", bench)
    assert run(["claims", "adaptive-curves", "--device", "host", "--no-save"]) == expected
    assert ("not measured" in capsys.readouterr().out) == (status != "ok")


def test_an_input_that_does_not_fit_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bench(*args: Any, **options: Any) -> list[Record]:
        raise InputError("it needs 3 TB of memory", remedy="take a smaller one")

    monkeypatch.setattr("spgraph_bench.api.bench", bench)
    assert run(["claims", "ell-padding", "--device", "host", "--no-save"]) == 0
    assert "it needs 3 TB of memory" in capsys.readouterr().out


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "--records", str(RESULTS), "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == 2 + len(claims())
    assert all(line.count(" | ") == 3 for line in lines if line.startswith("| "))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["hyb-cvr"], "did you mean hyb-csr"),
        (["--json", "--markdown"], "exclude each other"),
        (["--records", "absent"], "absent"),
        (["--records", ".", "--device", "host"], "no device is needed"),
        (["--time-limit", "nan"], "--time-limit"),
        (["--device", "gpu"], "is not one of auto"),
    ],
)
def test_errors(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", *args]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) <= 2


def test_a_rule_that_is_there_twice_is_an_error() -> None:
    from spgraph_bench.claims.base import claim

    with pytest.raises(ValueError, match="registered twice"):
        claim("hyb-csr", text="", taught="", runs=[Run("spmv", ("hyb",))])(lambda e: Verdict("holds", ""))


# ---- the page ----------------------------------------------------------------------------------------------


def _script() -> Any:
    path = Path(__file__).resolve().parent.parent / "scripts" / "claims.py"
    spec = importlib.util.spec_from_file_location("claims_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))
def test_the_page_has_the_verdicts_of_the_host() -> None:
    page: Any = _script()
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text) == text, "run scripts/claims.py"
    wrong = text.rpartition("**holds**")
    assert page.filled(f"{wrong[0]}**does not**{wrong[2]}") == text
