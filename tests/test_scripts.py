"""What `make` calls."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.formats import get_format
from spgraph_bench.paths import cuda_dir
from spgraph_bench.problems import get_problem
from spgraph_bench.recipes import make
from spgraph_bench.results.store import read_records
from spgraph_bench.variants import get_variant, select, variants

ROOT = Path(__file__).resolve().parent.parent


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("library", "major", "wanted"),
    [
        (None, 13, "nvmath-python[cu13]"),
        (None, 12, "nvmath-python[cu12]"),
        ("lib64/libcusparse.so.12", 13, "nvmath-python[sysctk13]"),
        ("targets/x86_64-linux/lib/libcusparse.so", 12, "nvmath-python[sysctk12]"),
    ],
)
def test_cusparse_follows_driver_and_toolkit(library: str | None, major: int, wanted: str, tmp_path: Path) -> None:
    if library:
        (tmp_path / library).parent.mkdir(parents=True)
        (tmp_path / library).touch()
    chosen = _script("install_gpu").requirements(major, tmp_path)
    assert any(requirement.startswith(wanted) for requirement in chosen)
    assert f"cuda-bindings=={major}.*" in chosen
    assert any(requirement.startswith("pycuda") for requirement in chosen)


def test_what_is_installed_for_a_gpu_is_both_extras(tmp_path: Path) -> None:
    """As the script, `spgraph doctor` and the README say."""

    def names(requirements: list[str]) -> list[str]:
        return [re.split(r"[^\w-]", text)[0] for text in requirements]

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    both = [*extras["gpu"], *extras["reference"]]
    assert extras["peers"] == ["spgraph[reference]"]  # the old name
    chosen = _script("install_gpu").requirements(13, tmp_path)
    assert names(chosen) == names(both)
    # Word for word, markers too, but for those that follow the driver's version.
    assert set(both) - set(chosen) == {t for t in both if t.startswith(("cuda-bindings", "nvmath-python"))}
    unknown = names(_script("install_gpu").requirements(None, tmp_path))
    assert set(names(both)) - set(unknown) == {"cuda-bindings", "nvmath-python"}


def test_gpu_packages_are_not_installed_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script: Any = _script("install_gpu")
    monkeypatch.setattr(script, "find_driver", lambda: None)
    monkeypatch.setattr(script, "toolkit_root", lambda: None)
    monkeypatch.setattr(script.subprocess, "run", lambda *a, **k: pytest.fail("pip was called"))
    script.main()
    assert "no GPU" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize(("body", "status"), [("", 0), ("int unused;", 1), ("syntax error", 1)])
def test_compile_all_fails_on_a_warning(
    body: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(f"__global__ void k(float* p) {{ {body} p[0] = 0; }}\n")
    script: Any = _script("compile_all")
    monkeypatch.setattr(script, "cuda_dir", lambda: tmp_path)
    monkeypatch.setattr(script, "ARCHITECTURES", (90,))
    monkeypatch.setattr(script, "modules", lambda *args, **more: _script("kernel_modules").NotingDevice())
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["compile_all.py", "--jobs", "1"])
    assert script.main() == status
    captured = capfd.readouterr()
    assert f"{1 - status} of 1 compiled for sm_90" in captured.out
    assert ("k.cu" in captured.err) == bool(status)


@functools.cache
def _noted() -> Any:
    return _script("kernel_modules").modules(only=lambda v: v.name in ("dia-jit", "csr-segmented", "csr-vector"))


def test_what_is_compiled_for_a_matrix_is_found() -> None:
    compiled = _noted().compiled
    result = {m.source: [dict(n.defines) for n in compiled if n.source == m.source] for m in compiled}
    assert any("SPG_DIAGS" in defines for defines in result["spmv/dia.cu"])
    assert any("SPG_ONE_LAUNCH" in defines for defines in result["spmv/csr_segmented.cu"])
    assert {(d["SPG_VALUE"], d["SPG_OFFSET"]) for d in result["spmv/csr_vector.cu"]} == {
        (value, offset) for value in ("float", "double") for offset in ("int", "long long")
    }


@pytest.mark.parametrize(
    ("problem", "matrix", "more", "names"),
    [
        ("spmv", "rmat:scale=7", {}, ["csr-*", "coo-segmented", "dia*", "hyb", "jds", "binned*", "bsr*"]),
        ("spmv", "rmat:scale=7", {"reorder": "degree"}, ["csr-segmented", "csr-subwarp"]),
        ("spmv", "poisson2d:n=20,values=ones", {}, ["pattern-*", "dia*", "ell", "sell"]),
        ("spmm", "blocks:n=8", {"option": "k=8"}, ["csr-*", "bsr*"]),
        ("bfs", "rmat:scale=7,symmetrize=1,values=none", {"param": "reorder=degree"}, ["auto", "direction"]),
        ("pagerank", "rmat:scale=7,values=none", {}, ["pull*", "edge"]),
    ],
)
def test_modules_that_are_prepared_are_those_that_a_run_takes(
    problem: str, matrix: str, more: dict[str, str], names: list[str], tmp_path: Path
) -> None:
    script: Any = _script("kernel_modules")
    options = [word for name, value in more.items() for word in (f"--{name}", value)]
    chosen = [word for name in names for word in ("--variant", name)]
    out = tmp_path / "records.jsonl"
    assert run(["sweep", matrix, "--problem", problem, "--device", "host", "-o", str(out), *chosen, *options]) == 0
    taken = {
        (module["source"], tuple(sorted(o[2:].partition("=")[::2] for o in module["options"] if o.startswith("-D"))))
        for record in read_records(out)
        for module in record.modules
    }
    words = {name: dict([more[name].split("=")]) for name in ("option", "param") if name in more}
    prepared = script.of_run(
        select(problem, names),
        make(matrix),
        get_problem(problem).dtypes[:1],
        words.get("option"),
        words.get("param"),
        more.get("reorder", "none"),
        device=script.NotingDevice("host"),
    )
    macros = {(m.source, tuple((n, v) for n, v in m.defines)) for m in prepared}
    assert taken
    assert taken <= macros


def test_the_modules_of_a_sweep_are_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script: Any = _script("prepare_modules")
    built: list[set[Any]] = []
    monkeypatch.setattr(script, "compile_for", lambda arch, wanted, jobs: built.append(wanted) or 0)
    config = tmp_path / "two.toml"
    config.write_text(
        'about = "two"\n[[run]]\nproblem = "spmv"\nmatrix = "poisson2d:n=160"\nvariant = "dia-jit"\n'
        '[[run]]\nproblem = "bfs"\nmatrix = "rmat:scale=6"\nvariant = "auto"\nsource = "3"\n'
        '[[run]]\nproblem = "bezier"\ncurves = 100\n'
    )
    assert script.main([str(config)]) == 0
    [wanted] = built
    assert {m.source for m in wanted} >= {"spmv/dia.cu", "bfs/auto.cu", "check/bfs.cu", "measure/clock.cu"}
    assert any(m.source.startswith("bezier/") for m in wanted)
    assert any("D(160)" in dict(m.defines).get("SPG_DIAGS", "") for m in wanted)
    assert script.main(["no-such-file"]) == 2
    assert len(built) == 1


def test_modules_of_a_sweep_are_those_of_its_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the offsets that its size takes, and from vertices that have names."""
    from spgraph_bench.formats import common

    script: Any = _script("prepare_modules")
    built: list[set[Any]] = []
    monkeypatch.setattr(script, "compile_for", lambda arch, wanted, jobs: built.append(wanted) or 0)
    monkeypatch.setattr(common, "INT32_ENTRIES", 3)
    graph = tmp_path / "named.gml"
    graph.write_text('graph [ node [ id 1 label "a" ] node [ id 2 label "b" ] edge [ source 1 target 2 ] ]')
    for problem in ("bfs", "bfs-batch"):
        assert script.main([str(graph), "--problem", problem, "--variant", "auto*", "--option", "source=b"]) == 0
    offsets = [{dict(m.defines).get("SPG_OFFSET") for m in of if m.source == "bfs/auto.cu"} for of in built]
    assert offsets == [{"int"}, {"int"}]
    assert script.main(["poisson2d:n=5", "--problem", "bfs", "--variant", "auto"]) == 0
    assert {dict(m.defines)["SPG_OFFSET"] for m in built[-1] if m.source == "bfs/auto.cu"} == {"long long"}


def test_modules_of_a_sweep_are_those_of_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what a problem does not take is left to the sweep to refuse."""
    script: Any = _script("prepare_modules")
    built: list[set[Any]] = []
    monkeypatch.setattr(script, "compile_for", lambda arch, wanted, jobs: built.append(wanted) or 0)
    wide = tmp_path / "wide.mtx"
    wide.write_text("%%MatrixMarket matrix coordinate real general\n3 4 2\n1 1 1\n2 4 1\n")
    words = ["--problem", "pagerank", "--variant", "pull", "--option", "weighted=yes"]
    assert script.main([str(wide), "rmat:scale=5,symmetrize=1", *words]) == 0
    [module] = [m for m in built[0] if m.source == "pagerank/pull.cu"]
    assert dict(module.defines)["SPG_WEIGHTED"] == "1"
    assert "a graph needs a square matrix" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["--jobs=0", "--jobs=-3", "--jobs=x", "--arch=foo", "--arch=sm_1", "--arch=90"])
@pytest.mark.parametrize("name", ["prepare_modules", "reference"])
def test_what_to_compile_for_is_checked_before_anything_is_prepared(
    name: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        _script(name).main(
            ["poisson2d:n=4"] * (name == "prepare_modules") + ["--build"] * (name == "reference") + [wrong]
        )
    option, _, value = wrong.partition("=")
    assert f"error: argument {option}: '{value}' is no " in capsys.readouterr().err


def test_extremes_of_tunables_are_found() -> None:
    script: Any = _script("kernel_modules")
    result = list(script.extremes(get_variant("spmv", "csr-segmented")))
    assert {"block": 64} in result
    assert {"block": 512} in result
    assert {"launches": 1} in result


def test_every_source_that_needs_types_is_compiled_with_them() -> None:
    script: Any = _script("compile_all")
    sources = {m.source for m in script.modules().compiled | script.of_validators()}
    alone = script.sources() - sources
    assert [s for s in sorted(alone) if re.search("(value|offset)_t", (cuda_dir() / s).read_text())] == []


def test_compile_all_takes_every_type_and_every_source_to_its_architectures() -> None:
    script: Any = _script("compile_all")
    archs = list(script.ARCHITECTURES)
    modules = {script.Module(m.source, m.defines) for m in _noted().compiled}
    todo = script.plan(modules, archs, False)
    for source in {m.source for m in modules}:
        own = [archs for m, archs in todo.items() if m.source == source]
        assert [a for archs in own for a in archs] == [script.IN_TURN[i % 3] for i in range(max(2, len(own)))]
        for kind in ("SPG_VALUE", "SPG_OFFSET"):
            all_of = {dict(m.defines)[kind] for m in modules if m.source == source}
            assert {dict(m.defines)[kind] for m in todo if m.source == source} == all_of
    assert script.plan(modules, archs, True) == dict.fromkeys(modules, archs)


LOG = """ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers
ptxas info    : Compiling entry function 'two' for 'sm_75'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers
"""


def test_new_spills_and_blocks_too_large_for_their_registers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    script: Any = _script("compile_all")
    module = script.Module("a.cu", (("SPG_VALUE", "double"),))
    one, two = script.usages(module, LOG)
    assert (one.kernel, one.arch, one.registers, one.spilled) == ("one", 90, 80, 12)
    assert (two.kernel, two.arch, two.registers, two.spilled) == ("two", 75, 32, 0)
    monkeypatch.setattr(script, "known_spills", list)
    (fault,) = script.faults([one, two], {})
    assert fault.startswith("cuda/a.cu value=double: one for sm_90 spills 12 bytes")
    assert script.faults([one], {}, set()) == []  # an extreme that a user set
    for entry, explained in (
        ({"kernel": "one", "bytes": 12}, True),
        ({"kernel": "one", "bytes": 11}, False),
        ({"kernel": "two", "bytes": 12}, False),
        ({"kernel": "one", "bytes": 12, "archs": [80]}, False),
        ({"kernel": "one", "bytes": 12, "defines": {"value": ["double"]}}, True),
        ({"kernel": "one", "bytes": 12, "defines": {"value": ["float"]}}, False),
    ):
        monkeypatch.setattr(script, "known_spills", lambda entry=entry: [entry])
        assert (script.faults([one], {}) == []) == explained, entry
    monkeypatch.setattr(script, "known_spills", lambda: [{"kernel": "one", "bytes": 12}])
    assert script.faults([one], {(module, "one"): 768}) == []  # 80 x 768 = 61,440
    (fault,) = script.faults([one], {(module, "one"): 1024})
    assert "needs 80 registers, 64 are left for each of 1024 threads" in fault


KERNEL = """#ifndef SPG_N
#error "no"
#endif
extern "C" __global__ void k(float* y) { y[threadIdx.x] *= SPG_N; }
"""


def _same(tmp_path: Path, before: str, after: str, *, n: int = 3) -> bool:
    script: Any = _script("same_code")
    trees = []
    for name, text in (("before", before), ("after", after)):
        folder = tmp_path / name / "cuda"
        folder.mkdir(parents=True)
        (folder / "k.cu").write_text(text)
        trees.append(script.Tree(folder, tmp_path / name / "bare"))
    old, new = (("k.cu", (("SPG_N", str(value)),), "k") for value in (3, n))
    return bool(script.same(*trees, old, new, {"k.cu": {"k"}}))


def test_code_is_the_same_where_the_preprocessor_leaves_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_script("same_code").Tree, "kernels", lambda *_: pytest.fail("nvcc was run"))
    after = "// faster\n#define MANY SPG_N\n" + KERNEL.replace("= SPG_N", "=\nMANY")
    assert _same(tmp_path, KERNEL, after)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
@pytest.mark.parametrize(
    ("after", "n", "alike"),
    [
        ("__device__ int n() { return SPG_N; }\n" + KERNEL.replace("= SPG_N", "= n()"), 3, True),
        (KERNEL, 4, False),
        (KERNEL.replace("y[threadIdx.x]", "*y"), 3, False),
    ],
)
def test_machine_code_is_compared(after: str, n: int, alike: bool, tmp_path: Path) -> None:
    assert _same(tmp_path, KERNEL, after, n=n) == alike


def test_each_known_spill_has_a_reason_and_a_kernel() -> None:
    script: Any = _script("compile_all")
    text = "".join(p.read_text() for p in script.cuda_dir().rglob("*.cu*"))
    for entry in script.known_spills():
        assert set(entry) <= {"kernel", "bytes", "defines", "archs", "reason"}
        assert len(entry["reason"]) > 10
        assert re.search(rf"\b{entry['kernel']}\(", text), entry["kernel"]


@pytest.mark.slow
def test_edge_lists_are_timed_and_their_memory_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script: Any = _script("bench_readers")
    monkeypatch.setattr(script, "EDGE_LISTS", ("rmat:scale=10,values=integers",))
    script.time_lists(script.lists_written(tmp_path), 1)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 2 * len(script.OPTIONS) * 2
    assert lines[2].startswith("integers-row-major --symmetrize  ")
    assert lines[-1].startswith("integers-no-order --relabel --symmetrize, no compiler ")
    assert not list(tmp_path.iterdir())
    real = script.read

    def greedy(*given: Any) -> Any:
        wasted = np.ones(60_000_000, np.uint8)
        matrix = real(*given)
        del wasted
        return matrix

    path = tmp_path / "a.txt"
    path.write_text("1 2\n" * 500_000)
    monkeypatch.setattr(script, "read", greedy)
    assert script.apart(script.read_list, str(path), {}, True)[2] > 60_000_000
    script.time_lists(iter([str(path)]), 1)
    assert capsys.readouterr().out.count("!") == len(script.OPTIONS) * 2


@pytest.mark.slow
def test_formats_are_converted_and_their_memory_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script: Any = _script("bench_formats")
    chosen = ("bsr*", "dia", "hyb")
    assert script.main(["blocks:n=8", "--repeat", "1", *(word for glob in chosen for word in ("--format", glob))]) == 0
    blocks = capsys.readouterr().out
    for name in ("bsr", "bsr-sliced", "dia", "hyb"):
        assert re.search(rf"^{name} +\d+\.\d\d +\d+\.\d\d ", blocks, re.MULTILINE), name
    assert script.main(["arrow:n=2000", "--format", "ell", "--format", "csr", "--repeat", "2"]) == 0
    skewed = capsys.readouterr().out
    assert "ell stores" in skewed.lower()
    assert re.search(r"^csr +\d+\.\d\d ", skewed, re.MULTILINE)
    # The peak holds the input, and what was taken on the way.
    csr = make("dense:rows=2000,cols=2000").csr
    form = get_format("coo")
    real = form.pack

    def greedy(*given: Any, **params: Any) -> Any:
        wasted = np.ones(150_000_000, np.uint8)
        packed = real(*given, **params)
        del wasted
        return packed

    monkeypatch.setattr(form, "pack", greedy)
    seconds, memory, stored = script.measured(form, csr, "float32", {})
    assert seconds > 0
    assert stored == 12 * csr.nnz
    assert memory > 100_000_000
    monkeypatch.setattr(form, "pack", lambda *given, **params: os._exit(9))
    assert script.measured(form, csr, "float32", {}) is None
    assert "out of memory?" in script.line(form, csr, "float32", {}, 1)


@pytest.mark.parametrize(
    ("name", "arguments", "cause"),
    [
        ("bench_formats", ["nosuch.mtx"], "there is no recipe 'nosuch.mtx'"),
        ("bench_formats", ["chain:n=9", "--format", "bsr", "--param", "block_size=x"], "block_size cannot be 'x'"),
        ("bench_readers", ["nosuch.mtx"], "nosuch.mtx"),
        ("bench_readers", ["pyproject.toml"], "remedy: "),
        ("bench_readers", ["--edge-lists", "nosuch.txt"], "nosuch.txt"),
    ],
)
def test_benchmarks_of_the_host_tell_bad_input_in_two_lines(
    name: str, arguments: list[str], cause: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SPGRAPH_CACHE", "")  # restored afterwards
    script: Any = _script(name)
    assert script.main(arguments) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert cause in printed
    assert len(printed.splitlines()) <= 2


def test_regret_tells_that_a_record_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["regret.py", "nosuch.jsonl"])
    assert _script("regret").main() == 2
    assert capsys.readouterr().err.startswith("error: nosuch.jsonl: cannot read records")


def test_bench_formats_knows_the_parameters_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    script: Any = _script("bench_formats")
    with pytest.raises(SystemExit):
        script.main(["chain:n=9", "--param", "nosuch=3"])
    assert "no format has a parameter 'nosuch'" in capsys.readouterr().err


def test_make_says_which_python_it_needs(tmp_path: Path) -> None:
    old = tmp_path / "python3.8"
    old.write_text("#!/bin/sh\ncase $1 in --version) echo Python 3.8.1;; *) exit 1;; esac\n")
    old.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "install_gpu.py").touch()
    done = subprocess.run(["make", "setup", f"PYTHON={old}"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert "needs Python 3.11 or later; this is Python 3.8.1" in done.stdout
    assert "remedy: " in done.stdout


def test_regret_of_a_mode_that_chooses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    records = str(ROOT / "results" / "h200" / "bfs-grid-1000.jsonl")
    regret = _script("regret")
    for mode, status in (("auto", 0), ("persistent", 1), ("frontier", 1)):
        monkeypatch.setattr(sys, "argv", ["regret.py", records, "--mode", mode])
        assert regret.main() == status, mode
    printed = capsys.readouterr().out
    assert "grid-1000" in printed
    assert "one-block" in printed
    assert "not timed" in printed


def test_durations_of_ncu_are_distinguished_by_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _script("clock_against_ncu")
    seen = [
        ("spg_empty()", "(7, 1, 1)", "1,248", "nsecond"),
        ("spg_read(const float4 *, long, float *)", "(1056, 1, 1)", "60", "usecond"),
        ("csr_scalar(int)", "(352, 1, 1)", "4,288", "nsecond"),
        ("csr_scalar(int)", "(352, 1, 1)", "4.4", "us"),
        ("spg_empty()", "(7, 1, 1)", "1.2", "us"),
        ("csr_merge(int)", "(9, 1, 1)", "6", "us"),
        ("csr_merge_carry(int)", "(1, 1, 1)", "2", "us"),
        ("spg_empty()", "(7, 1, 1)", "1.2", "us"),
        ("void cusparse::csrmv<float>(int)", "(9, 1, 1)", "7", "us"),
        ("void cusparse::csrmv<float>(int)", "(9, 1, 1)", "9", "us"),
        ("spg_empty()", "(7, 1, 1)", "1.2", "us"),
        ("coo_atomic(int)", "(9, 1, 1)", "7", "us"),
        ("coo_atomic(int)", "(9, 1, 1)", "7", "us"),
    ]
    head = '"ID","Kernel Name","Grid Size","Metric Unit","Metric Value"'
    rows = [f'"{n}","{k}","{grid}","{unit}","{value}"' for n, (k, grid, value, unit) in enumerate(seen)]
    operations = '{"csr-scalar": 1, "csr-merge": 2, "cusparse-csr-1": 8, "coo-atomic": 2}'

    def run(command: list[Any], **more: Any) -> Any:
        log = command[command.index("--log-file") + 1]
        log.write_text("\n".join(["==PROF== connected", head, *rows]))
        return subprocess.CompletedProcess(command, 0, f"said by a library\n{operations}\n", "")

    monkeypatch.setattr(script.subprocess, "run", run)
    result = script.profiled("poisson2d:n=300", "cold", 2, ["csr-scalar"])
    assert result == {"csr-scalar": ("csr_scalar", pytest.approx(4.344))}


def _ncu_log() -> str:
    """What ncu's raw page looks like: noise, a head, a row of units, launches."""
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    percent, hit = "avg.pct_of_peak_sustained_elapsed", "t_sector_hit_rate.pct"
    columns = {
        "ID": ("", "0", "1", "2"),
        "Host Name": ("", "10.0.0.7", "10.0.0.7", "10.0.0.7"),
        "Kernel Name": ("", "dia_fixed", "void lib::spmv<(int)4, float>(int, float *)", "spg_empty"),
        "Grid Size": ("", "(15625, 1, 1)", "(7, 1, 1)", "(1, 1, 1)"),
        "Block Size": ("", "(256, 1, 1)", "(64, 1, 1)", "(32, 1, 1)"),
        "gpu__time_duration.sum": ("ns", "117,408", "2,000", "1,888"),
        f"dram__throughput.{percent}": ("%", "80.08", "6.5", "0"),
        "dram__bytes_read.sum": ("byte", "448,008,448", "1,500,000", "0"),
        "dram__bytes_write.sum": ("byte", "4,337,664", "n/a", "0"),
        f"lts__throughput.{percent}": ("%", "84.18", "7", "0"),
        f"lts__{hit}": ("%", "4.44", "50", "0"),
        f"l1tex__{hit}": ("%", "52.25", "0", "0"),
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": ("", "4.44", "16", "0"),
        "smsp__issue_active.avg.pct_of_peak_sustained_active": ("%", "14.55", "50", "0"),
        stall.format("long_scoreboard"): ("", "15", "3", "0"),
        stall.format("lg_throttle"): ("", "20", "0", "0"),
        stall.format("selected"): ("", "1.00", "1.00", "0"),
        stall.format("wait"): ("", "4", "0", "0"),
    }
    table = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    rows = [",".join(f'"{cell}"' for cell in row) for row in table]
    return "\n".join(["==WARNING== Note: unmodified clocks", *rows, "==PROF== Disconnected"])


def test_counters_of_ncu_are_condensed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    script: Any = _script("counters")
    raw, short, again = tmp_path / "raw.csv", tmp_path / "short.csv", tmp_path / "again.csv"
    raw.write_text(_ncu_log())
    assert script.main(["-o", str(short), "--from", str(raw)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "raw.csv"
    assert re.fullmatch(
        r"dia_fixed +117\.4 +80 +448\.0 +4\.3 +84 +4 +- +52 +4\.4 +- +15"
        r"  lg_throttle 50, long_scoreboard 38, wait 10",
        printed[2],
    )
    # Neither arguments nor what is not there; what was issued is not a stall, but part of the time.
    assert re.fullmatch(r"lib::spmv +2\.0 +6 +1\.5 +- +7 +50 +- +0 +16\.0 +- +50  long_scoreboard 75", printed[3])
    assert len(printed) == 4, "an empty kernel tells nothing"
    assert "10.0.0.7" not in short.read_text()
    # Its own file is read, too.
    assert script.main(["-o", str(again), "--from", str(short)]) == 0
    assert again.read_text() == short.read_text()
    assert capsys.readouterr().out.splitlines()[2:] == printed[2:]


def test_counters_without_ncu_or_without_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    script: Any = _script("counters")
    empty = tmp_path / "empty.csv"
    empty.write_text('"ID","Kernel Name","Metric Name"\n"0","ell","x"\n')
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe")
    for path in (empty, binary, tmp_path, tmp_path / "none.csv"):
        assert script.main(["--from", str(path)]) == 1
        assert re.search(f"^counters.py: {path}: .+\nremedy: ", capsys.readouterr().err)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for words, why in (([], "give either"), (["spmv", "x"], "ncu is not on PATH")):
        with pytest.raises(SystemExit):
            script.main(words)
        assert why in capsys.readouterr().err

    def run(command: list[str], **more: Any) -> Any:
        assert command[command.index("bench") :][:4] == ["bench", "spmv", "x.mtx", "--variant"]
        Path(command[command.index("--log-file") + 1]).write_text(log)
        return subprocess.CompletedProcess(command, status, "==PROF== connected\nx.mtx: no such file\n")

    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(script.subprocess, "run", run)
    words = ["spmv", "x.mtx", "--variant", "csr*"]
    log, status = "", 2
    assert script.main(words) == 1
    printed = capsys.readouterr().err
    assert "ncu counted nothing" in printed
    assert "x.mtx: no such file" in printed
    log = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"
    assert script.main(words) == 1
    assert "nothing; what was said last:\n==ERROR== ERR_NVGPUCTRPERM" in capsys.readouterr().err
    log = _ncu_log()
    assert script.main(words) == 1
    captured = capsys.readouterr()
    assert "dia_fixed" in captured.out
    assert "the run ended with status 2" in captured.err
    status = 0
    assert script.main(words) == 0


def test_what_tests_one_variant() -> None:
    script: Any = _script("variant_tests")
    (variant,) = script.chosen("csr-vector")
    plain, sanitized, compiled = script.commands(variant)
    assert "tests/test_spmv_host.py" in plain
    assert plain[-2:] == ["-k", "csr-vector"]
    assert sanitized[1] == "scripts/sanitized.py"
    assert compiled[1:] == ["scripts/compile_all.py", "--source", "spmv/csr_vector.cu"]
    assert [v.problem for v in script.chosen("bfs/auto")] == ["bfs"]
    assert len(script.chosen("auto")) > 1
    assert script.chosen("no-such") == []
    for one in variants():
        assert one.library or script.test_files(one), one.problem
