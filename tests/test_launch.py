"""Launches from the device, around the kernels: limits, what is said when they are too small, break-even."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spgraph_bench.cli.main import run as cli
from spgraph_bench.errors import LaunchError, UsageError
from spgraph_bench.formats import formats, get_format
from spgraph_bench.measure.sampling import Sample
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.parameters import Parameter
from spgraph_bench.paths import cuda_dir
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.launch import item_values
from spgraph_bench.report import render
from spgraph_bench.report.verdict import Timed, child_verdict
from spgraph_bench.results.interval import Interval
from spgraph_bench.results.launch import break_even_at, crossing
from spgraph_bench.results.record import Record, Samples
from spgraph_bench.runner import break_even
from spgraph_bench.runner.children import Children, ChildrenLostError
from spgraph_bench.runner.messages import Message, NextCell
from spgraph_bench.runner.on_device.service import Service
from spgraph_bench.runner.payload import NO_MATRIX, Payload
from spgraph_bench.runner.plan import Cell, Task
from spgraph_bench.toolchain.nvcc import uses_device_launch
from tests.test_results import around, record, samples

PLUGIN = Path(__file__).parent / "plugins" / "children.py"
# Alone on the GPU: how many children wait together, and how long they take, depends on who else uses it.
DEVICES = ["host", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.gpu_alone])]


def bench(*args: str, plugin: bool = False) -> tuple[dict[str, Record], subprocess.CompletedProcess[str]]:
    environment = {**os.environ, "NO_COLOR": "1"}
    if plugin:
        environment["SPGRAPH_PLUGINS"] = str(PLUGIN)
    done = subprocess.run(
        [sys.executable, "-m", "spgraph_bench", "bench", *args, "--no-save", "--time-limit", "0.1"],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
    )
    assert "Traceback" not in done.stderr
    collected = {}
    if "--json" in args:
        collected = {r.variant: r for r in (Record.from_json(json.loads(x)) for x in done.stdout.splitlines())}
    return collected, done


# ---- order -----------------------------------------------------------------------------------------------


def _counts_of(seed: int, *args: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "spgraph_bench", *args, "--device", "host", "--seed", str(seed), "--json", "--no-save"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    record = json.loads(done.stdout)
    order = 0 if seed == 1 else seed  # the default leaves the natural one
    assert (record["status"], record["seed"], record["device"]["extra"]["seed"]) == ("ok", seed, order)
    counts: dict[str, int] = record["counters"]
    return counts


@pytest.mark.slow
def test_the_seed_of_the_command_line_varies_the_order() -> None:
    """The same search from the same vertex: only the order differs, and so how many claims fail."""
    graph = ("bfs", "rmat:scale=8,symmetrize=1", "--source", "3")
    result = [_counts_of(seed, *graph, "--mode", "child-launch", "--param", "hub_from=4") for seed in (1, 2, 7, 7)]
    assert len({each["global_atomics"] for each in result}) == 3
    assert {each["child_launches"] for each in result} == {183}
    assert result[2] == result[3]
    _counts_of(7, "bench", "quadtree", "--variant", "child-launch")


# ---- limits too small ------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_a_pool_that_is_too_small_fails_that_variant_and_the_run_goes_on(device: str) -> None:
    records, done = bench(
        "launch",
        "--device",
        device,
        "--json",
        "--launches",
        "10000",
        "--items",
        "0",
        "--pending-launches",
        "2048",
        "--variant",
        "fire-and-forget",
        "--variant",
        "tail",
        "--variant",
        "inline",
    )
    assert done.returncode == 1
    lost = records["fire-and-forget"]
    assert lost.status == "failed"
    printed = re.fullmatch(
        r"([\d,]+) of 10,000 child launches were refused \(pending-launch pool 2,048; needs about 10,000: "
        r"--pending-launches\)",
        lost.reason,
    )
    assert printed
    assert lost.children
    assert lost.children["refused"] == int(printed[1].replace(",", "")) > 0
    assert lost.children["launched"] + lost.children["refused"] == 10_000
    assert not lost.samples
    assert lost.limits["pending_launches"] == 2048
    assert records["tail"].status == records["inline"].status == "ok"
    assert records["inline"].children is None


@pytest.mark.parametrize("device", DEVICES)
def test_the_pool_is_set_from_the_bound(device: str) -> None:
    records, done = bench(
        "launch", "--device", device, "--json", "--launches", "3k", "--items", "0", "--variant", "fire-and-forget"
    )
    assert done.returncode == 0, done.stderr
    assert records["fire-and-forget"].status == "ok"
    assert records["fire-and-forget"].limits == {"pending_launches": 3000, "malloc_heap_bytes": 8 << 20}


@pytest.mark.parametrize("device", DEVICES)
def test_a_heap_that_is_too_small_fails_that_variant(device: str) -> None:
    args = f"launch --device {device} --json --launches 1k --items 0 --variant allo* --variant inl*".split()
    records, done = bench(*args, "--heap", "40k", plugin=True)
    assert done.returncode == 1
    lost = records["allocating"]
    assert lost.status == "failed"
    assert re.search(
        r"[\d,]+ of [\d,]+ allocations on the device failed \(heap 40 kB; needs about 2.1 GB: --heap\)", lost.reason
    )
    assert lost.children
    assert lost.children["allocations_failed"] > 0
    assert records["inline"].status == "ok"
    records, done = bench(*args, plugin=True)
    assert done.returncode == 0, done.stderr
    assert records["allocating"].status == "ok"
    assert records["allocating"].limits["malloc_heap_bytes"] == 1000 * 2 * (1 << 20)
    assert records["allocating"].children == {
        "launched": 0,
        "refused": 0,
        "failed": 0,
        "allocations": 1,
        "allocations_failed": 0,
        "bound": 0,
    }


@pytest.mark.gpu
@pytest.mark.gpu_alone
def test_a_pool_that_the_gpu_does_not_have_is_refused_with_figures() -> None:
    for launches in ("2M", "2000M"):
        _, done = bench(
            "launch", "--device", "cuda", "--variant", "tail", "--items", "0", "--pending-launches", launches
        )
        assert done.returncode == 2
        printed = re.sub(r"\s+", " ", done.stderr)
        assert re.search(
            r"a pool of 2,000,000(,000)? waiting launches (takes [\d.]+ |is more than the [\d,]+ )", printed
        )


@pytest.mark.gpu
@pytest.mark.gpu_alone
def test_the_break_even_is_measured_where_children_were_launched() -> None:
    args = ("launch", "--device", "cuda", "--json", "--items", "64", "--launches", "1000")
    records, done = bench(*args, "--variant", "fire-and-forget", "--variant", "inline")
    assert done.returncode == 0, done.stderr
    for one in records.values():
        assert [each["children"] for each in one.break_even] == [1, 10, 100, 1000]
        assert all(0 < each["low_us"] <= each["us"] <= each["high_us"] for each in one.break_even)
        assert all(each["child_us"] > 0 for each in one.break_even)
    records, done = bench(*args, "--variant", "inline")
    assert records["inline"].break_even == ()


class HostClock:
    """Runs what it is given; every sample takes a millisecond."""

    name, evict_bytes = "cuda-events", 0

    def gates(self, launch: Any) -> bool:
        return False

    def sample(self, launch: Any, cache: str) -> Sample:
        launch.reset()
        launch.run()
        return Sample(1.0)


def test_children_lost_while_timing_fail_the_variant_that_lost_them() -> None:
    problem: Any = get_problem("launch", {"launches": 100, "items": 0})
    inputs = problem.inputs(None, np.dtype(np.float32), 1)
    oracle = problem.oracle(None, inputs, np.dtype(np.float32))
    payload = Payload(NO_MATRIX, inputs={"float32": inputs}, oracles={"float32": oracle})
    messages: list[Message] = []
    service = Service("host", messages.append)
    service.stopwatches.made["gpu"] = HostClock()  # type: ignore[assignment]
    service.load(
        Task(
            "launch",
            {"float32": {"result": ((1025,), "uint64")}},
            options={"launches": 100, "items": 0},
            limits={"pending_launches": 100},
        ),
        payload,
    )
    cells = [Cell("inline", "float32"), Cell("fire-and-forget", "float32")]
    assert [service.check(cell).status for cell in cells] == ["ok", "ok"]
    rule = StoppingRule(time_limit_s=0.2)
    service.time(cells, rule, 1, {})  # nothing is lost
    service.device.set_limit("pending_launches", 10)
    messages.clear()
    with pytest.raises(ChildrenLostError, match=r"while it was timed: .* child launches were refused"):
        service.time(cells, rule, 1, {})
    assert [m.cell for m in messages if isinstance(m, NextCell)][-1] == cells[1]
    service.close()


def test_a_hang_below_the_bound_is_reported_with_its_likely_cause() -> None:
    records, done = bench(
        "launch",
        "--device",
        "host",
        "--json",
        "--launches",
        "5000",
        "--items",
        "0",
        "--watchdog",
        "2",
        "--pending-launches",
        "2048",
        "--variant",
        "hanging",
        "--variant",
        "inline",
        plugin=True,
    )
    assert done.returncode == 1
    assert records["inline"].status == "ok"
    assert records["hanging"].reason == (
        "no answer in 2 s; the pool of 2,048 waiting launches is below its bound of 5,000: --pending-launches"
    )


def test_counts_say_what_was_lost() -> None:
    pool, bound = {"pending_launches": 2048}, {"pending_launches": 3000}
    with pytest.raises(ChildrenLostError) as caught:
        Children(launched=2114, refused=886).must_be_whole(bound, pool)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "886 of 3,000 child launches were refused (pending-launch pool 2,048; needs about 3,000: --pending-launches)"
    )
    with pytest.raises(ChildrenLostError, match="2 child launches failed with CUDA error 9"):
        Children(launched=2, failed=2, error=9).must_be_whole({}, {})
    with pytest.raises(ChildrenLostError, match=r"heap 8.39 MB; needs more: --heap"):
        Children(allocations=1, allocations_failed=3).must_be_whole({}, {})
    Children(launched=10, allocations=3).must_be_whole({}, {})
    assert Children(launched=4).words() == {"launched": 4, "refused": 0, "failed": 0}


def test_launches_that_are_not_counted_are_an_error_where_the_device_counts() -> None:
    """A GPU does not: there one that was lost would go unseen."""
    args = ("launch", "--device", "host", "--json", "--launches", "100", "--items", "0")
    records, done = bench(*args, "--variant", "uncounted", "--variant", "tail", plugin=True)
    assert done.returncode == 1
    assert records["uncounted"].status == "wrong"
    assert records["uncounted"].reason == "its kernels counted 0 of 1 child launches (count_child)"
    assert records["tail"].status == "ok"


def test_every_launch_in_a_kernel_file_is_counted() -> None:
    """A launch without a check could be lost; so could memory."""
    launching = []
    for path in sorted([*cuda_dir().rglob("*.cu"), *cuda_dir().rglob("*.cuh")]):
        if "host" in path.relative_to(cuda_dir()).parts:
            continue
        text = re.sub(r"//[^\n]*|^[ \t]*#[ \t]*define[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.M)
        calls = re.findall(r"SPG_LAUNCH\(.*?;\s*(\w+|if \(!?\w+)\(", text, re.S)
        assert len(calls) == len(re.findall(r"\bSPG_LAUNCH\(", text)), path.name
        assert {re.sub(r"^if \(!?", "", call) for call in calls} <= {"count_child"}, path.name
        assert path.name == "children.cuh" or not re.search(r"\bmalloc\(", text), path.name
        launching += [path.name] * bool(calls)
    assert {"child_launch.cu", "tail_launch.cu", "tail.cu"} <= set(launching)


def test_kernels_that_launch_are_linked_with_the_device_runtime() -> None:
    assert uses_device_launch("launch/tail.cu")
    assert uses_device_launch("launch/device_graph.cu")
    assert uses_device_launch("bfs/child_launch.cu")
    assert not uses_device_launch("launch/task.cu")
    assert not uses_device_launch("bfs/auto.cu")


# ---- problems without a matrix ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("launch rmat:scale=4", "launch reads no file or recipe: its inputs are made from --launches, --items"),
        ("spmv rmat:scale=4 more", "more: no such file or folder, and 'more' is not a recipe"),
        ("--rank hot", "A problem is missing: one of bc,"),
        ("launch --symmetrize", "No such option"),
        ("launch --launches 0", "take an integer from 1 to 1000000 (k, M and G may follow)"),
        ("launch --launches 1.00001k", "take an integer"),
        ("launch --reorder rcm", "No such option"),
        ("launch --offsets int64", "No such option"),
        ("bezier --force-format", "No such option"),
        ("launch --pending-launches -3", "cannot be '-3'"),
        ("launch --variant inline --heap 1M", "no variant of launch here launches"),
        ("spmv grid:n=4 --pending-launches 9", "No such option"),
        ("spmv grid:n=4 --launches 9", "No such option"),
    ],
)
def test_what_does_not_fit_is_refused(args: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["bench", *args.split(), "--device", "host", "--in-process", "--no-save"]) == 2
    assert message in re.sub(r"\s+", " ", capsys.readouterr().err)


def test_a_record_names_the_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for launches in ("20", "20", "21"):
        args = f"launch --device host --no-save --json --in-process --variant inline --launches {launches}"
        assert cli(["bench", *args.split(), "--items", "9"]) == 0
        outputs.append(json.loads(capsys.readouterr().out))
    first, again, other = outputs
    assert first["matrix"]["name"] == "launch-launches-20-items-9"
    assert (first["matrix"]["rows"], first["matrix"]["source"]["kind"]) == (0, "options")
    assert first["matrix"]["sha256"] == again["matrix"]["sha256"] != other["matrix"]["sha256"]
    assert first["format"] == "none"
    assert first["options"] == {"launches": 20, "items": 9}
    assert [(c["tasks"], c["items"]) for c in first["cases"]] == [(1, 0), (10, 0), (20, 0), (20, 9)]


def test_none_is_not_a_format_of_matrices() -> None:
    assert "none" not in formats()
    none = get_format("none")
    empty = none.unpack(none.pack(get_format("csr").unpack(get_format("csr").pack(_empty()))))
    assert empty.shape == (0, 0)
    with pytest.raises(ValueError, match="cannot be packed as nothing"):
        none.pack(_small())


def _empty() -> Any:
    from spgraph_bench.matrix import CSR

    return CSR(0, 0, np.zeros(1, np.int64), np.empty(0, np.int32), None)


def _small() -> Any:
    from spgraph_bench.recipes import make

    return make("chain:n=3").csr


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [
        (1, "5000", 5000),
        (1, "5k", 5000),
        (1, "1.5M", 1_500_000),
        (1, "2G", 2 * 10**9),
        (1, "+7", 7),
        (1, "5.0", 5),
        (1, "0.0001k", None),
        (1, "k", None),
        (1, "1e3", 1000),
        (1, "4_000", 4000),
        (1, "5 k", None),
        (0.5, "0.25", 0.25),
        (0.5, "1", 1.0),
        (0.5, "nan", None),
        (0.5, "x", None),
        (0.5, "inf", None),
    ],
)
def test_numbers_as_options(default: float, text: str, value: float | None) -> None:
    option = Parameter(default, "a number", between=(0, 10**10))
    if value is None:
        with pytest.raises(UsageError, match="cannot be"):
            option.checked("--n", text)
    else:
        assert option.checked("--n", text) == value


def test_items_are_what_the_kernel_computes() -> None:
    def plain(x: int) -> int:
        for _ in range(4):
            x ^= x >> 15
            x = x * 0x2C1B3C6D % 2**32
        return x >> 8

    assert item_values(5).tolist() == [plain(x) for x in range(1, 6)]


# ---- break-even ------------------------------------------------------------------------------------------


def _spans(*pairs: tuple[float, float], width: float = 0.0) -> list[tuple[Interval, Interval]]:
    return [(Interval(a - width, a, a + width, 0.95), Interval(b - width, b, b + width, 0.95)) for a, b in pairs]


def test_the_crossing_is_where_lines_meet() -> None:
    # Doing it takes 0.01, 0.02, 0.04 ms, launching 0.03 always: they meet at 0.03, of which 0.004 is not work.
    position = crossing(_spans((0.01, 0.03), (0.02, 0.03), (0.04, 0.03)), 0.004)
    assert position == pytest.approx((26.0, 26.0, 26.0))
    wide = crossing(_spans((0.01, 0.03), (0.02, 0.03), (0.04, 0.03), width=0.001), 0.004)
    assert wide is not None
    assert wide[0] == pytest.approx(26.0)
    assert wide[1] == pytest.approx(24.0)
    assert wide[2] == pytest.approx(28.0)


def test_there_may_be_no_crossing() -> None:
    assert crossing(_spans((0.01, 0.03), (0.02, 0.03)), 0.0) is None
    assert crossing([], 0.0) is None
    # Faster from the first size on: the break-even is unknown.
    assert crossing(_spans((0.04, 0.03), (0.05, 0.03)), 0.0) is None
    # The last crossing counts where noise makes several.
    position = crossing(_spans((0.01, 0.03), (0.031, 0.03), (0.029, 0.03), (0.05, 0.03)), 0.0)
    assert position is not None
    assert position[0] == pytest.approx(30.0)


class FakeGpu:
    """Times of the two ways by a formula: a task of so many items, a launch, so many launches in turn."""

    def __init__(self, item_ms: float, launch_ms: float, latency_ms: float) -> None:
        self.item_ms, self.launch_ms, self.latency_ms = item_ms, launch_ms, latency_ms
        self.samples = 0

    def prepared(self, device: Any, name: str, tasks: int, sizes: list[int]) -> Any:
        launch = SimpleNamespace(name=name, tasks=tasks, case=0)
        launch.select = lambda case: setattr(launch, "items", sizes[case])
        job = SimpleNamespace(child_words=None, variant=SimpleNamespace(name=name))
        return SimpleNamespace(launch=launch, job=job)

    def sample(self, launch: Any, cache: str) -> Sample:
        self.samples += 1
        if launch.name == "inline":
            return Sample(0.004 + launch.items * self.item_ms)
        return Sample(0.004 + max(self.latency_ms, launch.tasks * self.launch_ms))


def test_break_even_is_found_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(30e-6, 0.28e-3, 0.018)
    monkeypatch.setattr(break_even, "_prepared", gpu.prepared)
    messages: list[str] = []
    result = break_even.measure_break_even(None, gpu, 10_000, messages.append)  # type: ignore[arg-type]
    assert [each["children"] for each in result] == [1, 10, 100, 1000, 10_000]
    # A task pays from where it takes a thread as long as the launches: 18 us, or 0.28 us times their number.
    assert [each["us"] for each in result] == pytest.approx([18.0, 18.0, 28.0, 280.0, 2800.0], rel=0.01)
    assert all(each["low_us"] <= each["us"] <= each["high_us"] for each in result)
    assert result[4]["child_us"] == pytest.approx(0.28, rel=0.01)
    assert gpu.samples < 5000
    assert len(messages) == 5


def test_break_even_ends_where_launches_never_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(30e-6, 1.0, 0.018)  # 1 ms a launch: 1,000 of them take longer than any task
    monkeypatch.setattr(break_even, "_prepared", gpu.prepared)
    result = break_even.measure_break_even(None, gpu, 2048, lambda text: None)  # type: ignore[arg-type]
    assert [each["children"] for each in result] == [1, 10]
    assert gpu.samples < 3000


def test_break_even_is_not_made_of_samples_that_are_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(30e-6, 0.28e-3, 0.018)
    monkeypatch.setattr(break_even, "_prepared", gpu.prepared)
    monkeypatch.setattr(gpu, "sample", lambda launch, cache: Sample(1.0, valid=False, reason="gate timeout"))
    with pytest.raises(LaunchError, match="cannot be timed: gate timeout"):
        break_even.measure_break_even(None, gpu, 2048, lambda text: None)  # type: ignore[arg-type]


MEASURED = (
    {"children": 1, "us": 8.0, "low_us": 7.9, "high_us": 8.2, "child_us": 7.0},
    {"children": 100, "us": 32.0, "low_us": 31.0, "high_us": 33.0, "child_us": 0.3},
    {"children": 10_000, "us": 2700.0, "low_us": 2600.0, "high_us": 2800.0, "child_us": 0.27},
)


def test_break_even_between_the_numbers_measured() -> None:
    position = break_even_at(MEASURED, 10)
    assert position is not None
    assert position["us"] == pytest.approx(16.0)  # half way in both logarithms
    assert break_even_at(MEASURED, 1) == pytest.approx({"us": 8.0, "low_us": 7.9, "high_us": 8.2})
    assert break_even_at(MEASURED, 10**6) == {"us": 2700.0, "low_us": 2600.0, "high_us": 2800.0}
    assert break_even_at((), 5) is None


def _timed(name: str, ms: float, children: int = 0, spread: float = 0.01, **more: Any) -> Timed:
    saved = record(
        name,
        children={"launched": children, "refused": 0, "failed": 0} if children else None,
        break_even=MEASURED,
        **more,
    )
    return Timed(name, saved, ms, ms * (1 - spread), ms * (1 + spread))


def test_the_verdict_says_what_to_use() -> None:
    rows = [_timed("child-launch", 3.1, 100), _timed("flattened", 1.0), _timed("uniform", 2.0)]
    assert child_verdict(rows) == (
        "child launches pay from 32.0 us of work per child on this GPU (31.0 to 33.0, with 100 in a run); "
        "here: no, use flattened (3.10x)"
    )
    rows = [_timed("child-launch", 1.0, 100), _timed("flattened", 2.0)]
    assert child_verdict(rows).endswith("here: yes, child-launch (2.00x against flattened)")
    rows = [_timed("child-launch", 1.0, 100), _timed("flattened", 1.001)]
    assert "no difference" in child_verdict(rows)
    # A chain of tail launches is another matter, and none where there are children too.
    chain = _timed("tail-launch", 0.5, 100)
    chain.record.children["bound"] = 2  # type: ignore[index]
    printed = child_verdict([chain, _timed("persistent", 0.25)])
    assert printed.startswith("100 tail launches, one after another, 5.00 us each with their work; here: no, use ")
    assert child_verdict([chain, _timed("child-launch", 3.1, 100), _timed("flattened", 1.0)]).endswith("(3.10x)")
    # Records from before the bound was kept: a chain is known by its name.
    old = [_timed("tail-launch", 0.5, 100), _timed("child-launch", 3.1, 100), _timed("flattened", 1.0)]
    assert child_verdict(old).endswith("(3.10x)")
    assert child_verdict([old[0], old[2]]).startswith("100 tail launches, one after another")
    assert child_verdict([_timed("flattened", 1.0)]) == ""
    assert child_verdict([_timed("scipy", 1.0, where="cpu")]) == ""


def _launch_record(variant: str, factor: float, **more: Any) -> Record:
    cases = tuple({"tasks": n, "items": m} for n, m in [(1, 0), (10, 0), (1000, 0), (1000, 64), (1000, 256)])
    order = [k for _ in range(8) for k in range(5)]
    times = [
        factor * cases[k]["tasks"] * (1 + cases[k]["items"] / 64) * (1 + 1e-3 * i) / 1e3 for i, k in enumerate(order)
    ]
    taken = Samples("cold", tuple(times), "cuda-events", True, 3, "converged", cases=tuple(order))
    source = {"kind": "options", "text": "5 cases", "format": "generated"}
    given = {
        "problem": "launch",
        "format": "none",
        "cases": cases,
        "samples": (taken,),
        "break_even": MEASURED,
        "matrix": {"name": "launch-x", "sha256": "f" * 64, "rows": 0, "cols": 0, "nnz": 0, "source": source},
        "limits": {"pending_launches": 4096, "malloc_heap_bytes": 8 << 20},
    }
    return record(variant, **{**given, **more})


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_table_of_launches(width: int) -> None:
    rows = [
        _launch_record("host-loop", 8.0),
        _launch_record("fire-and-forget", 0.3, children={"launched": 1, "refused": 0, "failed": 0}),
        _launch_record("flattened", 0.1),
        _launch_record("graph", 1.0, samples=(), status="skipped", reason="CUDA graphs exist on a GPU only"),
    ]
    text = render(rows, width=width)
    assert max(map(len, text.splitlines())) <= width
    flat = re.sub(r"\s+", " ", text)
    assert "pool of 4,096 waiting launches, heap of 8.39 MB on the device" in flat
    assert "us per launch, by launches in a run" in flat
    assert re.search(r"children at a time break-even us 95 % interval.*10,000 2,700 2,600 2,800", flat)
    assert "here: no, use flattened" in flat
    assert "skipped graph CUDA graphs exist on a GPU only" in flat
    assert "every count and every sum was exact" in flat
    assert "of the others every" not in flat
    lost = _launch_record("tail", 1.0, samples=(), status="failed", reason="9 child launches were refused")
    assert "of the others every count and every sum was exact" in re.sub(r"\s+", " ", render([*rows, lost]))
    assert "was exact" not in render([lost])
    lines = [line.split()[0] for line in text.splitlines() if "#" in line and line[0].isalpha()]
    assert lines == ["flattened", "fire-and-forget", "host-loop"]  # the cheapest first


def test_a_table_shows_facts_children_and_memory_without_a_matrix() -> None:
    source = {"kind": "options", "text": "10 curves", "format": "generated"}
    more = {
        "problem": "bezier",
        "format": "none",
        "rate_unit": "Mpoints/s",
        "operations": 2_000_000,
        "matrix": {"name": "b", "sha256": "e" * 64, "rows": 0, "cols": 0, "nnz": 0, "source": source},
        "bytes": {"device": 5_000_000},
        "facts": {"points": 83_000, "saved": "3.1x"},
        "samples": (samples(around(1.0)), samples(around(0.9), "hot")),
    }
    rows = [record("child-launch", children={"launched": 3000, "refused": 0}, **more), record("flat", **more)]
    flat = re.sub(r"[ \t]+", " ", render(rows, width=100))
    assert "inputs 10 curves, sha256 eeeeeeeeeeee" in flat
    assert "nonzeros" not in flat
    assert "Mpoints/s" in flat
    assert "points saved children lost memory" in flat
    assert "2,000" in flat  # 2 M points in 1 ms are 2,000 million a second
    assert "83,000 3.1x 3,000 0 5 MB" in flat
