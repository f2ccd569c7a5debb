"""The numbers in the documents are those of the records, and the records are one set."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.results.record import Record, Samples
from spgraph_bench.toolchain.sources import kernel_tokens

ROOT = Path(__file__).resolve().parent.parent


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


numbers: Any = _script("fill_numbers")
reference: Any = _script("reference")
PLAN = reference.plan()
PAGES = [
    p
    for p in numbers.documents()
    if p.name not in ("notebook.md", "measuring.md", "records.md", "architecture.md", "corrections.md")
]


def _record(variant: str = "csr-scalar", times: tuple[float, ...] = (1.0,) * 6, **fields: Any) -> Record:
    samples = Samples("cold", times, "cuda-events", True, 3, fields.pop("stopped", "converged"))
    source = "spmv/csr_scalar.cu"
    module = {"source": source, "tokens": kernel_tokens(source), "options": [], "ms": 1.0, "for_matrix": False}
    plain = Record(
        "spmv", variant, "csr", None, "gpu", "float32", {}, {}, {}, "run", "ok", samples=(samples,), modules=(module,)
    )
    return dataclasses.replace(plain, **fields)


def test_every_number_is_that_of_its_record() -> None:
    assert numbers.main(["--check"]) == 0


def test_a_wrong_number_and_a_missing_mark_are_found_and_a_mark_too_many_is_not() -> None:
    right = "text\n| a | 1.50 | 0.0292† dia |\n"
    assert numbers.missing(right, right) == []
    assert numbers.missing(right.replace("1.50", "1.50†"), right) == []
    assert numbers.missing(right.replace("1.50", "1.51"), right) == ["| a | 1.50 | 0.0292† dia |"]
    assert numbers.missing(right.replace("†", ""), right) == ["| a | 1.50 | 0.0292† dia |"]
    assert numbers.missing(right.replace("1.50", "1.50†").replace("92†", "92"), right)
    assert numbers.missing("text\n", right)


def test_only_whole_records_are_taken() -> None:
    assert numbers.whole(_record())
    assert not numbers.whole(_record(times=(1.0,)))
    assert not numbers.whole(_record(stopped="interrupted"))
    assert not numbers.whole(_record(cases=({"source": 1},) * 7))
    assert not numbers.whole(dataclasses.replace(_record(), status="wrong"))


def test_a_number_whose_kernel_changed_but_for_its_machine_code_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    source, other = "spmv/csr_scalar.cu", "spmv/csr_vector.cu"
    [module] = _record().modules
    first = dataclasses.replace(_record(), modules=({**module, "tokens": "1" * 64},))
    chain = {(source, "1" * 64): "2" * 64, (source, "2" * 64): module["tokens"]}
    for known, marked in (
        (chain, False),
        ({(other, k): v for (_, k), v in chain.items()}, True),
        ({(source, "1" * 64): "2" * 64}, True),
        ({(source, "1" * 64): "2" * 64, (source, "2" * 64): "1" * 64}, True),
    ):
        monkeypatch.setattr(numbers, "_same_code", lambda known=known: known)
        assert numbers.changed(first) == marked


def test_the_changes_that_left_machine_code_alone_are_of_sources_and_tokens() -> None:
    changes = numbers.tomllib.loads(numbers.SAME_CODE.read_text(encoding="utf-8"))
    for source, pair in ((s, p) for pairs in changes.values() for s, p in pairs.items()):
        assert re.fullmatch(r"\w+/\w+\.cu", source)
        assert [re.fullmatch("[0-9a-f]{64}", tokens) is not None for tokens in pair] == [True, True]
        assert pair[0] != pair[1]


def test_a_number_whose_kernel_changed_is_marked() -> None:
    now = _record()
    assert numbers.shown(now) == "1.000"
    [module] = now.modules
    assert numbers.shown(dataclasses.replace(now, modules=({**module, "tokens": "0" * 64},))) == "1.000†"
    assert numbers.shown(dataclasses.replace(now, modules=())) == "1.000†"  # does not say which it was
    assert numbers.shown(dataclasses.replace(now, modules=(), library="cuSPARSE")) == "1.000"


def test_a_win_needs_intervals_that_do_not_meet() -> None:
    fast, slow = _record(times=(1.0,) * 6), _record(times=(2.0,) * 6)
    wide = _record(times=(0.9, 1.0, 1.0, 1.0, 1.0, 2.5))
    assert numbers.summary([("a", slow, fast), ("b", fast, slow), ("c", wide, fast)]) == (
        "**1.00**, least 0.500 (b); 1 won, 1 tied, 1 lost"
    )
    assert numbers.ratio(slow, fast) == "2.00"
    assert numbers.ratio(wide, fast) == "=1.00"


def test_records_are_those_of_the_plan() -> None:
    folder = numbers.RESULTS
    there = {p.relative_to(folder).as_posix().removesuffix(".jsonl") for p in folder.rglob("*.jsonl")}
    assert there <= {r.name for r in PLAN}


_TIME = re.compile(r"(?<![\w.])\d[\d.,]*\d?(?: to \d[\d.,]*)? ?(?:ms|us|GTEPS|TB/s|G arcs/s)\b")
_NOT_OURS = ("Gunrock", "GAPBS", "figures that others got")


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_measured_time_is_outside_of_the_places(path: Path) -> None:
    """Those of others, with their names, may; so may what is printed in an example."""
    text = re.sub(r"^```.*?^```", "", numbers.PLACE.sub("", path.read_text(encoding="utf-8")), flags=re.S | re.M)
    collected = []
    for paragraph in text.split("\n\n"):
        if not any(name in paragraph for name in _NOT_OURS):
            collected += _TIME.findall(paragraph)
    assert not collected


# ---- scripts/reference.py ---------------------------------------------------------------------------------


def test_plan_is_made_of_commands_that_there_are() -> None:
    assert len({r.name for r in PLAN}) == len(PLAN)
    for r in PLAN:
        args = [a for a in reference.arguments_of(r) if a not in ("--trace", "--all-modes")]
        assert run([*args, "--help"]) == 0, r.name
        assert r.dtypes()
        assert reference.select(r.problem, r.values("--variant")), r.name
    for part in {r.part for r in PLAN}:
        assert sum(r.seconds for r in PLAN if r.part == part) <= 540


def test_build_wants_the_modules_of_what_runs() -> None:
    [bfs] = [r for r in PLAN if r.name == "bfs-rmat20-degree"]
    sources = {module.source for module in reference.needed(bfs, None)}
    assert sources >= {"bfs/auto.cu", "graph/results.cu", "check/bfs.cu", "measure/clock.cu", "measure/checksum.cu"}
    assert "bfs/push.cu" not in sources


def test_build_names_the_folder_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SPGRAPH_MATRICES", raising=False)
    assert reference.main(["--build", "--only", "spmv-cage10"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_a_run_is_kept_when_it_is_whole_and_of_this_code(tmp_path: Path) -> None:
    from spgraph_bench.provenance import code_hash
    from spgraph_bench.results.store import to_json_lines

    [r] = [r for r in PLAN if r.name == "spmv-rmat18"]
    old = to_json_lines([_record(environment={"code": "0" * 64})])
    assert not reference.up_to_date(r.path(tmp_path))
    printed, _ = reference.keep(r, 130, old, tmp_path)
    assert "not kept" in printed
    assert not r.path(tmp_path).exists()
    reference.keep(r, 0, old, tmp_path)
    assert r.path(tmp_path).exists()
    assert not reference.up_to_date(r.path(tmp_path))
    reference.keep(r, 0, to_json_lines([_record(environment={"code": code_hash()})]), tmp_path)
    assert reference.up_to_date(r.path(tmp_path))
    reference.keep(r, 4, "", tmp_path)  # a failure later does not spoil what is there
    assert reference.up_to_date(r.path(tmp_path))


def test_a_run_is_broken_off_at_its_limit() -> None:
    def slow(args: list[str]) -> int:
        import time

        print("{}")
        time.sleep(30)
        return 0

    assert reference.one(PLAN[0], 0.05, None, "host", slow) == (130, "{}\n")


def test_matrices_are_made_beforehand_once(tmp_path: Path) -> None:
    from spgraph_bench import recipes

    texts = ["poisson2d:n=4", "chain:n=5", "poisson2d:n=4"]
    plain = recipes.make
    with reference.made_beforehand(texts):
        made = recipes.make("poisson2d:n=4")
        assert recipes.make("poisson2d:n=4") is made
        assert made.csr.equals(plain("poisson2d:n=4").csr)
        assert recipes.make("star:n=3").csr.rows == plain("star:n=3").csr.rows
    assert recipes.make is plain


def test_modules_for_a_matrix_are_planned_without_a_gpu() -> None:
    [r] = [r for r in PLAN if r.name == "spmv-poisson2d-300"]
    modules = reference.needed(dataclasses.replace(r, like="poisson2d:n=160"), None)
    diagonals = [dict(m.defines)["SPG_DIAGS"] for m in modules if "SPG_DIAGS" in dict(m.defines)]
    assert diagonals == ["D(-160)D(-1)D(0)D(1)D(160)"] * 2  # float32 and float64
    assert any(m.source == "spmv/csr_subwarp.cu" and "SPG_THREADS" in dict(m.defines) for m in modules)
