"""`spgraph smoke`: what its cases cover, what it fails for, and its JUnit XML."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from spgraph_bench.cli import smoke as cli_smoke
from spgraph_bench.cli.main import run
from spgraph_bench.device.probe import Missing
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems import problems
from spgraph_bench.recipes import recipes
from spgraph_bench.report.junit import Suite, junit_xml
from spgraph_bench.results.record import Record
from spgraph_bench.runner import smoke
from spgraph_bench.runner.smoke import SMOKE_CASES, SmokeCase, smoke_variants, unmet
from spgraph_bench.variants import variants

SMALL = SmokeCase("spmv", "poisson2d:n=4", ("csr-scalar",), ("csr-scalar",), from_file=True)


def _record(variant: str = "csr-scalar", status: str = "ok", reason: str = "") -> Record:
    return Record(
        "spmv",
        variant,
        "csr",
        None,
        "gpu",
        "float32",
        {"name": "m"},
        {},
        {},
        "1",
        status=status,
        reason=reason,  # type: ignore[arg-type]
    )


def test_every_problem_kernel_and_family_of_recipes_is_run() -> None:
    run_names = {(v.problem, v.name) for case in SMOKE_CASES for v in smoke_variants(case)}
    missing = {(v.problem, v.name) for v in variants() if v.kernel and v.where == "gpu"} - run_names
    assert not missing
    assert {case.problem for case in SMOKE_CASES} == set(problems())
    family = {name: entry.build.__module__ for name, entry in recipes().items()}
    used = {family[case.recipe.partition(":")[0]] for case in SMOKE_CASES if case.recipe}
    assert used == set(family.values())
    assert any(case.from_file for case in SMOKE_CASES)


def test_child_launches_and_auto_must_run() -> None:
    for problem, name in (("bfs", "auto"), ("bfs", "child-launch"), ("bezier", "child-launch-malloc")):
        cases = [c for c in SMOKE_CASES if c.problem == problem]
        skipped = [unmet(c, [_record(v.name, "skipped", "why") for v in smoke_variants(c)]) for c in cases]
        assert any(name in line and "why" in line for lines in skipped for line in lines)


def test_unmet() -> None:
    assert unmet(SMALL, [_record()]) == []
    assert unmet(SMALL, []) == ["no variant csr-scalar ran", "nothing ran"]
    assert unmet(SMALL, [_record(status="skipped", reason="old GPU"), _record("scipy")]) == [
        "csr-scalar must run, but was skipped: old GPU"
    ]


def _smoke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *cases: SmokeCase) -> tuple[int, ElementTree.Element]:
    monkeypatch.setattr(smoke, "SMOKE_CASES", cases)
    junit = tmp_path / "smoke.xml"
    status = run(["smoke", "--device", "host", "--junit", str(junit), "--results", str(tmp_path / "records")])
    return status, ElementTree.parse(junit).getroot()


def test_a_small_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, root = _smoke(monkeypatch, tmp_path, SMALL)
    assert status == 0
    assert root.attrib["tests"] == "1"
    assert root.attrib["failures"] == "0"
    assert root[0].attrib["name"] == "spmv, poisson2d:n=4 from a .mtx file, float32"
    assert "smoke passed" in capsys.readouterr().out
    assert len(list((tmp_path / "records").glob("smoke-host-*.jsonl"))) == 1


def test_a_file_read_otherwise_than_written_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from spgraph_bench import recipes as made

    def other(*_: object) -> Matrix:
        return made.make("poisson2d:n=5")

    monkeypatch.setattr("spgraph_bench.readers.read", other)
    status, root = _smoke(monkeypatch, tmp_path, SMALL)
    assert status == 1
    assert root.attrib["failures"] == "1"
    assert "another matrix than was written" in capsys.readouterr().out


def test_a_failed_variant_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(session: object, case: SmokeCase, keep: object) -> list[str]:
        keep(_record(status="wrong", reason="y[3] is 2"))  # type: ignore[operator]
        return []

    monkeypatch.setattr(smoke, "run_case", wrong)
    status, root = _smoke(monkeypatch, tmp_path, SMALL)
    assert status == 1
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.attrib == {"type": "wrong", "message": "y[3] is 2"}
    assert "csr-scalar: wrong: y[3] is 2" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["there is no NVIDIA GPU here", "PyCUDA is not installed", "nvcc is not found"])
def test_a_missing_device_is_a_failure(
    what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spgraph_bench.device.probe.cuda_missing", lambda driver: Missing(what, "install it"))
    junit = tmp_path / "smoke.xml"
    assert run(["smoke", "--device", "cuda", "--junit", str(junit)]) == 3
    root = ElementTree.parse(junit).getroot()
    assert root.attrib["failures"] == "1"
    failure = root.find(".//failure")
    assert failure is not None
    assert what in failure.attrib["message"]
    assert what in capsys.readouterr().err


def test_junit_takes_any_text() -> None:
    suites = [Suite("a<b&\x00", (_record(status="failed", reason='"\x1b[31m\ud800'),), ("]]>",), 1.5)]
    root = ElementTree.fromstring(junit_xml(suites, {"device": "\x07"}))
    assert root.attrib == {
        "name": "spgraph smoke",
        "tests": "2",
        "failures": "2",
        "skipped": "0",
        "errors": "0",
        "time": "1.500",
    }
    assert [f.text for f in root.iter("failure")] == ['"\\u001b[31m\\ud800', "]]>"]


def test_the_place_of_the_xml_is_looked_at_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["smoke", "--device", "host", "--junit", str(tmp_path / "no" / "smoke.xml")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert cli_smoke.command.name == "smoke"
