"""Which code, kernels and libraries a record is of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spgraph_bench.device import open_device
from spgraph_bench.paths import cuda_dir
from spgraph_bench.toolchain.modules import Request, build, compile_ms
from spgraph_bench.toolchain.nvcc import cubin_request
from spgraph_bench.toolchain.sources import kernel_tokens, token_digest, tokens
from spgraph_bench.variants.base import library_versions

ROOT = Path(__file__).resolve().parent.parent
ASK = (
    "import json; from spgraph_bench.provenance import code_hash, commit, note_commit; note = note_commit();"
    "print(json.dumps([code_hash(), commit().name, commit().clean, note is not None]))"
)


def _ask(tree: Path, cache: Path) -> list[object]:
    environment = {**os.environ, "PYTHONPATH": str(tree), "SPGRAPH_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, cwd=tree, env=environment, check=True
    )
    data: list[object] = json.loads(done.stdout)
    return data


def _git(tree: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", *identity, "-c", "safe.directory=*", "-C", str(tree), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_code_hash_and_commit_of_a_checkout_and_of_its_copy(tmp_path: Path) -> None:
    tree, copy, cache = tmp_path / "tree", tmp_path / "copy", tmp_path / "cache"
    for folder in ("spgraph_bench", "cuda"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(tree, copy)
    code = _ask(copy, cache)
    assert code[1:] == ["", None, False]  # no repository, and no note of the commit
    _git(tree, "init", "-q")
    (tree / ".gitignore").write_text("__pycache__\n")
    _git(tree, "add", ".")
    _git(tree, "commit", "-qm", "all")
    commit = _git(tree, "rev-parse", "HEAD")
    assert _ask(tree, cache) == [code[0], commit, True, True]
    assert _ask(copy, cache) == [code[0], commit, True, True]
    (tree / "README.md").write_text("not part of the code")
    assert _ask(tree, cache)[1:3] == [commit, True]
    kernel = tree / "cuda/spmv/csr_scalar.cu"
    kernel.write_text(kernel.read_text() + "\n")
    changed = _ask(tree, cache)
    assert changed[0] != code[0]
    assert changed[1:] == [commit, False, False]


def test_comments_and_layout_do_not_count() -> None:
    plain = tokens('#define A(x) x\nint f(int a) { return a ++ + 1 >>2; } // b\nchar* s = "/* no */ //";')
    assert plain == tokens(
        '/* c\n */ #  define A(x)   x // c\n\nint f(int a){\n return a++ + 1 >> 2;\n}char *s="/* no */ //";'
    )
    assert '"/* no */ //"' in plain
    differing = [
        "a + ++b",
        "a++ + b",
        "a+ + +b",
        "1.0f",
        "1.0",
        "1e-3",
        "1e - 3",
        "x<<<1, 2>>>()",
        "x << <1, 2>>>()",
        "#define A b\nc",
        "#define A b c",
        "'a'",
        "a",
        "a b",
        "ab",
    ]
    assert len({tuple(tokens(text)) for text in differing}) == len(differing)
    assert tokens("#define A \\\n b\nc") == tokens("#define A b\nc")


def test_tokens_of_a_kernel_are_those_of_all_it_includes(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text('#include "b.cuh"\nint a;\n')
    (tmp_path / "b.cuh").write_text("int b;  // why\n")
    before = token_digest(tmp_path / "a.cu")
    (tmp_path / "b.cuh").write_text("/* another reason */\nint\nb;\n")
    assert token_digest(tmp_path / "a.cu") == before
    (tmp_path / "b.cuh").write_text("int c;\n")
    assert token_digest(tmp_path / "a.cu") != before
    assert kernel_tokens("spmv/csr_scalar.cu") != kernel_tokens("spmv/csr_vector.cu")
    root = cuda_dir()  # the host device's shim is not part of what a GPU runs
    assert kernel_tokens("spmv/csr_scalar.cu") != token_digest(root / "spmv/csr_scalar.cu", [root])


def test_time_to_compile_is_kept_with_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path))
    module = open_device("host").compile("spmv/csr_scalar.cu", {"SPG_VALUE": "float", "SPG_OFFSET": "int"})
    first = module.compiled
    assert first.source == "spmv/csr_scalar.cu"
    assert first.ms > 10
    assert "-DSPG_VALUE=float" in first.options
    again = open_device("host").compile("spmv/csr_scalar.cu", {"SPG_VALUE": "float", "SPG_OFFSET": "int"})
    assert again.compiled == first
    old = build(Request(("old",), lambda target: target.write_text("x") and None, ".x"))
    old.with_suffix(".json").write_text('{"sha256": ""}')  # of a version that kept none
    assert compile_ms(old) == 0.0


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_a_module_for_a_gpu_is_the_same_wherever_nvcc_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a machine without a GPU can fill the cache of one that has it."""
    from spgraph_bench.toolchain import nvcc

    real = Path(str(shutil.which("nvcc"))).resolve()
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "nvcc"
    other.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    other.chmod(0o755)
    keys = []
    for home in (real.parent.parent, tmp_path):
        monkeypatch.setenv("CUDA_HOME", str(home))
        nvcc.find_nvcc.cache_clear()
        keys.append(cubin_request("spmv/csr_scalar.cu", {"SPG_VALUE": "float"}, "sm_90").key)
        assert nvcc.find_nvcc().path == str(home / "bin" / "nvcc")
    nvcc.find_nvcc.cache_clear()
    assert keys[0] == keys[1]


def test_versions_of_libraries_are_listed_and_absent_ones_omitted() -> None:
    from importlib import metadata

    assert library_versions(["scipy", "no such library"]) == {"scipy": metadata.version("scipy")}
