"""`spgraph list` and `spgraph show` follow from the registries."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.cli.show import opening_comment
from spgraph_bench.formats.base import formats
from spgraph_bench.paths import cuda_dir
from spgraph_bench.variants.base import variants

ROOT = Path(__file__).resolve().parent.parent


def _json(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert run([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_list_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    data = _json(capsys, "list")
    assert list(data) == ["problems", "formats", "variants", "recipes", "readers", "configs"]
    assert [f["name"] for f in data["formats"]] == list(formats())
    assert {(v["problem"], v["name"]) for v in data["variants"]} == {(v.problem, v.name) for v in variants()}
    assert all(row["about"] for rows in data.values() for row in rows)


def test_list_in_plain_text_fits_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "\x1b" not in out
    assert all(v.name in out for v in variants())


def test_list_has_a_table_of_variants_for_each_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "variants"]) == 0
    out = capsys.readouterr().out
    for problem in {v.problem for v in variants()}:
        assert re.search(rf"^variants of {problem} *$", out, re.MULTILINE)
    assert re.search(r"^csr-scalar +csr +a thread per row", out, re.MULTILINE)
    assert re.search(r"^scipy +csr +scipy, cpu +", out, re.MULTILINE)
    assert len(out.splitlines()) < 3 * len(variants()), "columns beside `about` take too much room"


@pytest.mark.parametrize(("name", "message"), [("scipi", "did you mean scipy or csc"), ("qqq", "list variants")])
def test_show_what_is_not_a_variant(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", name]) == 2
    assert message in capsys.readouterr().err


def test_list_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(_json(capsys, "list", "recipes")) == ["recipes"]


def test_formats_whose_fill_spreads_inf_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    data = _json(capsys, "list", "formats")["formats"]
    assert [f["name"] for f in data if f["nonfinite"]] == ["dia", "bsr", "bsr-sliced", "blocked-ell"]
    for variant, message in (("dia", True), ("bsr-sliced", True), ("blocked-ell", True), ("ell", False)):
        problem = "spmm" if variant == "blocked-ell" else "spmv"
        assert run(["show", variant, "--problem", problem]) == 0
        assert ("nonfinite: no" in capsys.readouterr().out) == message


@pytest.mark.parametrize("variant", variants(), ids=lambda v: f"{v.problem}-{v.name}")
def test_show_every_variant(variant: Any, capsys: pytest.CaptureFixture[str]) -> None:
    facts = _json(capsys, "show", variant.name, "--problem", variant.problem)
    assert facts["about"] == variant.about
    assert facts["layout"]
    assert f'"{variant.name}"' in facts["prepare"] or variant.library
    if variant.source:
        assert facts["contract"], f"cuda/{variant.source} does not open with its contract"
        text = (cuda_dir() / variant.source).read_text()
        assert facts["source"].strip() in text
        assert "__global__" in text or "SPG_KERNEL" in text or re.search(r'#include "\w+\.cu"', text)
    assert set(variant.tunables) <= set(facts["tunables"])
    assert run(["show", variant.name, "--problem", variant.problem]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(name in out for name in facts["tunables"])


def test_show_in_a_narrow_terminal_cuts_nothing_off() -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "spgraph_bench", "show", "csr-vector"],
        stdout=child,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "50", "TERM": "xterm-256color"},
    )
    os.close(child)
    seen = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal is an error
        while chunk := os.read(parent, 1 << 16):
            seen += chunk
    os.close(parent)
    assert process.wait(60) == 0
    assert b"\x1b[" in seen
    plain = re.sub(r"\x1b\[[\d;]*m", "", seen.decode()).replace("\r\n", "\n")
    assert opening_comment((cuda_dir() / "spmv" / "csr_vector.cu").read_text())[1] in plain


@pytest.mark.parametrize(
    ("source", "comment", "rest"),
    [
        ("// one\n//  two\n#pragma once\n", "one\n two", "#pragma once\n"),
        ("/* one\n * two\n */\n\nint x;\n", "one\ntwo", "int x;\n"),
        ("int x; // no\n", "", "int x; // no\n"),
    ],
)
def test_opening_comment(source: str, comment: str, rest: str) -> None:
    assert opening_comment(source) == (comment, rest)
