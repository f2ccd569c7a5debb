"""Records to disk and back, what they say of matrix and machine, and the statistics derived from them."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.matrix import CSR, Finding, Matrix, Policies, Source
from spgraph_bench.results import Ceiling, Record, RecordFile, Samples, read_records, to_json_lines
from spgraph_bench.results.describe import describe_device, describe_environment, describe_matrix
from spgraph_bench.results.interval import Interval
from spgraph_bench.results.statistics import Row, compare, ratio, timing

ROOT = Path(__file__).resolve().parent.parent
NOW = datetime(2025, 3, 1, 12, 30, 5, tzinfo=UTC)


def samples(times: list[float], cache: str = "cold", **more: Any) -> Samples:
    given: dict[str, Any] = {"clock": "cuda-events", "gated": True, "warmups": 3, "stopped": "converged"}
    return Samples(cache, tuple(times), **{**given, **more})  # type: ignore[arg-type]


def around(median: float, spread: float = 0.001, n: int = 21) -> list[float]:
    """n times whose median is `median`, from -spread to +spread of it."""
    return [median * (1 + spread * (2 * i / (n - 1) - 1)) for i in range(n)]


def broken(**fields: Any) -> str:
    """A line of a file of records: a record with other `fields`."""
    whole = record(taken=[1.0, 2.0], cases=({"source": 0, "edges": 3}, {"source": 1, "edges": 3})).to_json()
    whole["samples"][0]["cases"] = [0, 1]
    for name, value in fields.items():
        (whole["samples"][0] if name in ("times_ms", "places") else whole)[name.replace("places", "cases")] = value
    return json.dumps(whole) + "\n"


def record(variant: str = "csr-vector", taken: list[float] | None = None, **more: Any) -> Record:
    given: dict[str, Any] = {
        "problem": "spmv",
        "variant": variant,
        "format": "csr",
        "library": None,
        "where": "gpu",
        "dtype": "float32",
        "matrix": {"name": "m", "sha256": "ab" * 32, "rows": 10, "cols": 10, "nnz": 1000},
        "device": {"kind": "cuda", "name": "GPU", "l2_bytes": 100, "uuid": "GPU-1"},
        "environment": {},
        "run": "r1",
        "status": "ok",
        "operations": 2000,
        "rate_unit": "GFLOP/s",
        "bytes": {"compulsory": 8000, "stored": 9000},
        "samples": () if taken is None else (samples(taken),),
        "ceiling": Ceiling(4.0, 2.0, 0.0001, 1 << 30),
    }
    return Record(**{**given, **more})


def full_record() -> Record:
    return record(
        taken=around(2.0),
        params=MappingProxyType({"slots": np.int64(3)}),
        check={"ok": False, "max_error_ratio": math.inf, "worst": np.float32("nan")},
        counters={"barriers": 3},
        notes=("note",),
        reason="größer als ∞",
    )


# -- JSON


def test_a_record_survives_json() -> None:
    before = full_record()
    after = Record.from_json(json.loads(json.dumps(before.to_json(), allow_nan=False)))
    assert after.samples == before.samples
    assert after.ceiling == before.ceiling
    assert after.notes == before.notes
    assert after.reason == before.reason
    assert after.params == {"slots": 3}
    assert after.check == {"ok": False, "max_error_ratio": "inf", "worst": "nan"}
    assert after.to_json() == before.to_json()


def test_fields_of_a_later_version_are_ignored() -> None:
    data = full_record().to_json()
    data["new"] = 1
    data["samples"][0]["new"] = 1
    data["ceiling"]["new"] = 1
    assert Record.from_json(data).to_json() == full_record().to_json()


def test_json_lines_are_one_record_a_line() -> None:
    text = to_json_lines([full_record(), record()])
    assert text.count("\n") == 2
    assert [json.loads(line)["variant"] for line in text.splitlines()] == ["csr-vector"] * 2


@pytest.mark.parametrize("kind", [Record, Samples, Ceiling])
def test_every_field_is_in_the_schema_page(kind: type[Any]) -> None:
    page = (ROOT / "docs" / "records.md").read_text()
    assert [f.name for f in dataclasses.fields(kind) if f"`{f.name}`" not in page] == []


def test_the_schema_pages_example_is_a_record() -> None:
    page = (ROOT / "docs" / "records.md").read_text()
    example = page.split("```json\n")[1].split("```")[0]
    assert Record.from_json(json.loads(example)).variant == "csr-vector"


def test_options_that_are_not_given_are_not_shown() -> None:
    drawn = {"source": -1, "sources": 4, "component": "largest", "cutoff": -1.0, "personalize": ""}
    assert record(options=drawn).given_options == {"sources": 4, "component": "largest"}
    assert record(options={**drawn, "source": 0, "cutoff": 2.0}).given_options == {"source": 0, "cutoff": 2.0}


# -- files


def test_records_are_on_disk_as_they_are_appended(tmp_path: Path) -> None:
    with RecordFile(tmp_path / "new" / "results", "spmv", "cage3", NOW) as file:
        assert file.path.name == "spmv-cage3-20250301T123005Z.jsonl"
        file.append(record("a"))
        assert [r.variant for r in read_records(file.path)] == ["a"]
        file.append(record("b"))
    assert [r.variant for r in read_records(tmp_path / "new" / "results")] == ["a", "b"]


def test_two_runs_in_one_second_get_two_files(tmp_path: Path) -> None:
    with RecordFile(tmp_path, "spmv", "m", NOW) as a, RecordFile(tmp_path, "spmv", "m", NOW) as b:
        a.append(record("a"))
        b.append(record("b"))
        assert a.path != b.path
    assert [r.variant for r in read_records([a.path, b.path])] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("rmat:scale=20,seed=1", "rmat-scale-20-seed-1"),
        ("../../etc/passwd", "etc-passwd"),
        ("Größe €", "Gr-e"),
        ("", "matrix"),
        ("...", "matrix"),
        ("x" * 500, "x" * 60),
    ],
)
def test_any_matrix_name_makes_a_harmless_file_name(tmp_path: Path, name: str, slug: str) -> None:
    with RecordFile(tmp_path, "spmv", name, NOW) as file:
        assert file.path == tmp_path / f"spmv-{slug}-20250301T123005Z.jsonl"


def test_a_run_without_records_leaves_no_file(tmp_path: Path) -> None:
    file = RecordFile(tmp_path, "spmv", "m", NOW)
    assert file.path.exists()
    file.close()
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error_immediately(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--no-save"):
        RecordFile(tmp_path / "file", "spmv", "m")
    with pytest.raises(UsageError, match="--no-save"):
        RecordFile("/proc/nowhere", "spmv", "m")


def test_a_full_disk_leaves_whole_records_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordFile(tmp_path, "spmv", "m", NOW) as file:
        file.append(record("a"))
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
        with pytest.raises(InputError, match="no space left"):
            file.append(record("b"))
        monkeypatch.setattr(os, "write", write)
        file.append(record("c"))
    assert [r.variant for r in read_records(file.path)] == ["a", "c"]


def test_a_line_cut_off_by_a_kill_is_skipped_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(to_json_lines([record("a"), record("b")])[:-50])
    messages: list[str] = []
    assert [r.variant for r in read_records(path, messages.append)] == ["a"]
    assert messages == [f"{path}:2: the last line is cut off (the run was killed?), skipped"]


def test_a_record_cut_inside_a_character_is_skipped_too(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    line = to_json_lines([full_record()]).encode()
    path.write_bytes(line + line[: line.index("ß".encode()) + 1])
    messages: list[str] = []
    assert len(read_records(path, messages.append)) == 1
    assert len(messages) == 1


GOOD = to_json_lines([record()])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GOOD + "{broken}\n" + GOOD, 2, "not a record"),
        ("%%MatrixMarket matrix\n1 1 1\n", 1, "not a record"),
        ("%%MatrixMarket", 1, "not a record"),
        ("\x00\x01\x02", 1, "not a record"),
        (GOOD + "[1, 2]\n", 2, "not a record of spgraph"),
        ('{"a": 1}\n', 1, "not a record of spgraph"),
        (GOOD.replace('"schema":1', '"schema":999'), 1, "upgrade"),
        ('{"schema":1,"variant":"x"}\n', 1, "not a complete record"),
        (GOOD.replace('"samples":[]', '"samples":[{"cache":"cold"}]'), 1, "not a complete record"),
        (GOOD.replace('"samples":[]', '"samples":[7]'), 1, "not a complete record"),
        (GOOD.replace('"problem"', '"x"'), 1, "it has no problem"),
        (broken() + broken(times_ms=["nan", 1.0]), 2, "samples.times_ms has nan"),
        (broken(times={"convert_ms": "inf"}), 1, "times has inf"),
        (broken(places=[0, 2]), 1, "samples.cases are"),
        (broken(places=[0, 0]), 1, "samples.cases are"),
        (broken(places=[]), 1, "samples.cases are"),
        (broken(cases=[{"source": 0, "edges": 3}]), 1, "samples.cases are"),
        (broken(cases=[{"x": 1}, {"x": 2}]), 1, "cases are"),
        (broken(cases=[{"source": 0, "edges": "x"}] * 2), 1, "cases.edges is 'x'"),
    ],
)
def test_what_is_not_a_record_is_reported_with_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as error:
        read_records(path)
    assert error.value.place == f"{path}:{line}"


def test_a_missing_file_and_an_empty_folder_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read records"):
        read_records(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="no records"):
        read_records(tmp_path)


def test_blank_lines_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("\n" + GOOD + "\n\n")
    assert len(read_records(tmp_path)) == 1


# -- what a record keeps of matrix, device and environment


def test_a_matrix_is_described_with_its_policies_and_findings() -> None:
    csr = CSR(1, 2, np.array([0, 1]), np.array([1], np.int32), None)
    matrix = Matrix(
        "tiny",
        csr,
        Source("file", "tiny.mtx", "matrix-market"),
        weighted=False,
        policies=Policies(base=1, mirrored=True),
        findings=(Finding("odd", 3, 2),),
    )
    printed = json.loads(json.dumps(describe_matrix(matrix)))
    assert printed["nnz"] == 1
    assert printed["sha256"] == matrix.sha256
    assert printed["source"] == {"kind": "file", "text": "tiny.mtx", "format": "matrix-market"}
    assert printed["policies"]["mirrored"] is True
    assert printed["said"] == ["1-based (format)", "mirrored"]
    assert printed["findings"] == [{"text": "odd", "line": 3, "count": 2, "warning": False}]


def test_a_device_is_described_as_it_is() -> None:
    info = DeviceInfo("cuda", "GPU", "sm_90", 1, 2, 3, uuid="GPU-1", extra=MappingProxyType({"ecc": True}))
    assert json.loads(json.dumps(describe_device(info)))["extra"] == {"ecc": True}


def test_the_environment_names_versions_but_not_the_machine() -> None:
    printed = describe_environment("13.0.48")
    assert printed["numpy"] == np.__version__
    assert printed["compiler"] == "13.0.48"
    assert printed["cores"] >= 1
    assert all(printed[key] for key in ("spgraph", "python", "scipy", "os", "kernel", "cpu", "machine"))
    assert socket.gethostname() not in map(str, printed.values())


# -- statistics


def test_timing_gives_median_interval_and_tukeys_hinges() -> None:
    t = timing(samples([5.0, 1.0, 2.0, 4.0, 3.0, 6.0, 7.0]))
    assert t is not None
    assert (t.median, t.q1, t.q3, t.fastest, t.count) == (4.0, 2.5, 5.5, 1.0, 7)
    assert t.interval is not None
    assert (t.interval.low, t.interval.high) == (1.0, 7.0)
    few = timing(samples([2.0, 1.0]))
    assert few is not None
    assert few.interval is None
    assert (few.q1, few.median, few.q3) == (1.0, 1.5, 2.0)
    assert timing(None) is None
    assert timing(samples([])) is None


def test_rates_are_derived_from_the_median() -> None:
    (row,) = compare([record(taken=around(0.004))])  # 4 us: 2,000 operations and 8,000 bytes
    assert row.rate == pytest.approx(0.5)
    assert row.gbs == pytest.approx(2.0)
    assert row.ceiling_share == pytest.approx(0.5)
    assert row.cache_resident == ""
    assert not row.near_floor


def test_more_than_the_ceiling_is_cache_resident() -> None:
    (row,) = compare([record(taken=around(0.0019))])
    assert row.ceiling_share == pytest.approx(8 / 1.9 / 4)
    assert row.cache_resident == "over 100 % of the ceiling"


def test_a_working_set_below_l2_is_cache_resident() -> None:
    device = {"kind": "cuda", "l2_bytes": 8001}
    gpu, cpu = compare(
        [
            record("gpu", around(1.0), device=device),
            record("cpu", around(2.0), device=device, where="cpu", library="scipy"),
        ]
    )
    assert gpu.cache_resident == "working set below L2"
    assert (cpu.cache_resident, cpu.ceiling_share) == ("", None)


def test_a_row_under_three_floors_is_marked() -> None:
    assert compare([record(taken=around(0.00029))])[0].near_floor
    assert not compare([record(taken=around(0.00031))])[0].near_floor


def ranks(rows: list[Row]) -> dict[str, tuple[int | None, bool]]:
    return {r.record.variant: (r.rank, r.tied) for r in rows}


def test_only_disjoint_intervals_make_a_difference() -> None:
    # Median intervals at n = 21 span ranks 6 to 16, half the spread: +-1 % for a spread of 2 %.
    rows = compare(
        [
            record("c", around(1.03, 0.02)),
            record("a", around(1.00, 0.02)),
            record("b", around(1.015, 0.02)),
            record("d", around(2.0, 0.02)),
        ]
    )
    assert [r.record.variant for r in rows] == ["a", "b", "c", "d"]
    assert ranks(rows) == {"a": (1, True), "b": (1, True), "c": (2, True), "d": (4, False)}


def test_wrong_failed_and_skipped_rows_are_never_ranked() -> None:
    fast = around(0.1)
    rows = compare(
        [
            record("skipped", fast, status="skipped"),
            record("wrong", fast, status="wrong"),
            record("failed", fast, status="failed"),
            record("good", around(1.0)),
            record("emulated"),
            record("few", [0.5] * 3),
        ]
    )
    assert [r.record.variant for r in rows] == ["good", "few", "emulated", "wrong", "failed", "skipped"]
    assert [r.rank for r in rows] == [1, None, None, None, None, None]
    assert rows[0].to_best is not None
    assert rows[0].to_best.value == 1.0
    assert rows[3].rate is None


def test_the_ratio_of_two_intervals_is_conservative() -> None:
    r = ratio(Interval(9, 10, 11, 0.95), Interval(4, 5, 6, 0.95))
    assert (r.value, r.low, r.high) == (2.0, 1.5, 2.75)
    assert ratio(Interval(1, 1, 1, 0.95), Interval(0, 0, 0, 0.95)).value == math.inf


def test_ratios_are_to_the_best_row_and_to_the_best_library() -> None:
    rows = compare(
        [
            record("ours", around(1.0)),
            record("peer", around(2.0), library="cuSPARSE"),
            record("worse peer", around(4.0), library="cuSPARSE"),
        ]
    )
    assert rows[0].to_library is not None
    assert rows[0].to_library.value == pytest.approx(0.5)
    assert rows[2].to_best is not None
    assert rows[2].to_best.value == pytest.approx(4.0)


def test_a_library_on_the_gpu_is_the_one_to_compare_with() -> None:
    cpu = record("multiply", around(0.5), library="scipy", where="cpu")
    peer = record("peer", around(2.0), library="cuSPARSE")
    ours = record("ours", around(1.0))
    value = {r.record.variant: r.to_library.value for r in compare([cpu, peer, ours]) if r.to_library}
    assert value == {"multiply": 0.25, "ours": 0.5, "peer": 1.0}
    alone = {r.record.variant: r.to_library.value for r in compare([cpu, ours]) if r.to_library}
    assert alone == {"multiply": 1.0, "ours": 2.0}


def test_rows_are_ranked_by_the_cache_state_asked_for() -> None:
    a = record("a", samples=(samples(around(1.0)), samples(around(0.9), "hot")))
    b = record("b", samples=(samples(around(2.0)), samples(around(0.1), "hot")))
    assert [r.record.variant for r in compare([a, b])] == ["a", "b"]
    assert [r.record.variant for r in compare([a, b], "hot")] == ["b", "a"]


@pytest.mark.parametrize(
    ("ms", "convert", "preprocess", "pays"),
    [
        (0.9, 10.0, 1.0, 110),  # 11 ms more setup, 0.1 ms less a run
        (0.5, 10.0, 0.0, 20),
        (0.5, 10.1, 0.0, 21),  # 20 runs are not quite enough
        (0.9, 0.0, 0.0, 0),
        (1.0, 10.0, 0.0, math.inf),
        (2.0, 0.0, 0.0, math.inf),
    ],
)
def test_break_even_against_the_best_csr_row(ms: float, convert: float, preprocess: float, pays: float) -> None:
    rows = compare(
        [
            record("csr", around(1.0)),
            record("slow csr", around(5.0)),
            record(
                "hyb",
                around(ms),
                format="hyb",
                times={"convert_ms": convert, "preprocess_ms": preprocess, "compile_ms": 99.0},
            ),
        ]
    )
    result = {r.record.variant: r.pays_after for r in rows}
    assert result == {"csr": None, "slow csr": None, "hyb": pays}


def test_break_even_counts_reordering_against_the_own_order() -> None:
    def reordered(variant: str, ms: float, **more: Any) -> Record:
        times = {"reorder_ms": 40.0, "convert_ms": 5.0}
        return record(variant, around(ms), reorder="degree", times=times, **more)

    own = record("csr", around(1.0), times={"convert_ms": 5.0})
    rows = compare([own, reordered("csr", 0.5), reordered("sell", 0.25, format="sell")])
    assert [r.pays_after for r in rows] == [54, 80, None]  # 40 / 0.75 and 40 / 0.5
    # Where all are reordered, all have paid for it.
    rows = compare([reordered("csr", 0.5), reordered("sell", 0.25, format="sell")])
    assert [r.pays_after for r in rows] == [0, None]


def test_without_a_csr_row_there_is_no_break_even() -> None:
    assert compare([record("hyb", around(1.0), format="hyb")])[0].pays_after is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("times", {"convert_ms": "quick"}),
        ("bytes", 5),
        ("reason", None),
        ("modules", [5]),
        ("samples", ["x"]),
        ("status", "fine"),
        ("operations", True),
        ("notes", [{}]),
        ("matrix", {"rows": "many"}),
        ("device", {"extra": []}),
        ("ceiling", {"read_gbs": None, "copy_gbs": 1, "floor_ms": 1, "bytes": 1}),
    ],
)
def test_a_field_of_another_type_is_refused_with_its_line(tmp_path: Path, field: str, value: Any) -> None:
    line = record().to_json()
    line[field] = {**line[field], **value} if field in ("matrix", "device") else value
    file = tmp_path / "spoilt.jsonl"
    file.write_text(f"{to_json_lines([record()])}{json.dumps(line)}\n")
    with pytest.raises(InputError, match="not a complete record") as error:
        read_records(file, lambda text: None)
    assert str(error.value).startswith(f"{file}:2: ")


def test_json_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deep.jsonl"
    file.write_text("[" * 100_000)
    with pytest.raises(InputError, match="not a record"):
        read_records(file, lambda text: None)
