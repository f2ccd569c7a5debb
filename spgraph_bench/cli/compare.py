"""`spgraph compare BASE NEW`: what became faster or slower between two sets of records, as a verdict for CI."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from spgraph_bench.cli.options import ParameterType, PathParam
from spgraph_bench.cli.problem_options import flag_of
from spgraph_bench.cli.terminal import console, note, out, out_json, warn
from spgraph_bench.errors import InputError, NothingRanError, UsageError
from spgraph_bench.parameters import Parameter
from spgraph_bench.paths import data_dir
from spgraph_bench.units import quantity

if TYPE_CHECKING:
    from spgraph_bench.results.comparison import Comparison
    from spgraph_bench.results.record import Record

__all__ = ["command"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class _Percent(ParameterType):
    """3%, 3 % or 0.03: a share."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip()
        share = super().convert(text.removesuffix("%").strip(), param, ctx)
        return float(share) / 100 if text.endswith("%") else float(share)


@click.command("compare")
@click.argument("files", nargs=-1, metavar="[BASE] NEW", type=PathParam())
@click.option("--baseline", metavar="NAME", help="Use the baseline kept as NAME as BASE.")
@click.option("--keep", metavar="NAME", help="Keep NEW as the baseline NAME, after comparing where BASE is given.")
@click.option(
    "--threshold",
    type=_Percent(Parameter(0.03, "", between=(0.0, 100.0))),
    default="3%",
    show_default=True,
    metavar="SHARE",
    help="Changes up to this do not count: 3% or 0.03.",
)
@click.option(
    "--rank", type=click.Choice(["cold", "hot"]), default="cold", show_default=True, help="Cache state to compare."
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["device", "driver", "library", "policy"]),
    help="Compare although this differs (repeatable); such ratios are between machines, not builds.",
)
@click.option("--strict", is_flag=True, help="Fail for unsure cells too, and for those that do not run any more.")
@click.option("--rerun", is_flag=True, help="Measure unsure cells again, both builds in turns.")
@click.option(
    "--base-python",
    metavar="PYTHON",
    default=sys.executable,
    help="--rerun: the Python that has the base build [default: this one].",
)
@click.option(
    "--new-python",
    metavar="PYTHON",
    default=sys.executable,
    help="--rerun: the Python that has the new build [default: this one].",
)
@click.option(
    "--rounds",
    type=ParameterType(Parameter(3, "", between=(1, 100))),
    default="3",
    show_default=True,
    metavar="N",
    help="--rerun: turns of each build.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="markdown is for a comment on a pull request.",
)
def command(
    files: tuple[Path, ...],
    baseline: str | None,
    keep: str | None,
    threshold: float,
    rank: Literal["cold", "hot"],
    allow: tuple[str, ...],
    strict: bool,
    rerun: bool,
    base_python: str,
    new_python: str,
    rounds: int,
    form: str,
) -> int:
    """Compare the records of two runs, cell by cell. BASE and NEW are files of records or folders of them.

    A cell is slower (faster) when the 95 % intervals of its medians do not meet and the medians differ by more
    than the threshold. Exit status: 0 no regression, 1 a cell is slower or broken, or none is in both, 2 the
    sides cannot be compared.

    \b
      spgraph compare base.jsonl new.jsonl
      spgraph compare --keep main results/     keep a baseline
      spgraph compare --baseline main new.jsonl --format markdown
    """
    from spgraph_bench.results.comparison import compare_records, regressed

    for name in filter(None, (baseline, keep)):
        if not _NAME.fullmatch(name):
            raise UsageError(f"a baseline cannot be called {name!r}", remedy="letters, digits, '.', '_' and '-'")
    sides = [*([_baseline_path(baseline)] if baseline else []), *files]
    if keep and len(sides) == 1 and not baseline:
        _keep(sides[0], keep)
        return 0
    if len(sides) != 2:
        raise UsageError(
            f"{quantity(len(sides), 'set')} of records given, two are compared",
            remedy="spgraph compare BASE NEW, or --baseline NAME NEW",
        )
    base, new = (_records(side) for side in sides)
    result = compare_records(base, new, threshold=threshold, cache=rank, allow=allow)
    if not result.cells:
        raise NothingRanError(
            "no cell is in both sets: same file or recipe, problem, variant and dtype make a cell",
            remedy="run the same command with both builds",
        )
    if result.refused:
        name, text = next(iter(result.refused.items()))
        raise UsageError(f"the sides differ in {name}: {text}", remedy=f"--allow {name}, where that is meant")
    if rerun:
        result = _rerun(result, base_python, new_python, rounds, rank, threshold, allow)
    _show(result, form)
    if keep:
        _keep(sides[1], keep)
    return 1 if regressed(result, strict=strict) else 0


def _show(result: Comparison, form: str) -> None:
    from spgraph_bench.report.comparison import comparison_json, comparison_markdown, comparison_table

    if form == "json":
        out_json(comparison_json(result), indent=None)
    elif form == "markdown":
        out(comparison_markdown(result))
    else:
        to = console()
        click.echo(comparison_table(result, to.width, to.is_terminal), nl=False, color=to.is_terminal or None)


@contextmanager
def _baselines() -> Iterator[Path]:
    """The folder of baselines. Raises UsageError for what cannot be read or written there."""
    try:
        yield data_dir("baselines")
    except OSError as error:
        cause = f"baselines cannot be kept: {error.strerror or error}"
        raise UsageError(cause, place=error.filename, remedy="set SPGRAPH_DATA to a folder you can write to") from None


def _baseline_path(name: str) -> Path:
    """The folder of the baseline `name`. Raises UsageError with those there are."""
    with _baselines() as root:
        folder = root / name
        if not folder.is_dir():
            names = ", ".join(sorted(p.name for p in root.iterdir() if p.is_dir())) or "none is kept"
            raise UsageError(
                f"there is no baseline {name!r} ({names})", remedy=f"spgraph compare --keep {name} RECORDS"
            )
        return folder


def _records(side: Path) -> list[Record]:
    """The records there, one at least."""
    from spgraph_bench.results.store import read_records

    if records := read_records(side, warn):
        return records
    raise InputError("there are no records", place=str(side), remedy="run a bench first")


def _keep(records: Path, name: str) -> None:
    """Keep what is in `records` as the baseline `name`, in the place of an older one."""
    from spgraph_bench.results.store import read_records, to_json_lines

    lines = to_json_lines(read_records(records, warn))
    if not lines:
        raise InputError("there are no records", place=str(records), remedy="run a bench first")
    with _baselines() as root:
        fresh, folder = root / f".{name}-{os.getpid()}", root / name
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        (fresh / "records.jsonl").write_text(lines, encoding="utf-8", errors="backslashreplace")
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    note(f"baseline {name} is kept in {folder}")


def _command(record: Record) -> list[str]:
    """The command line that runs the cell of `record` again. Raises UsageError where a record does not tell enough."""
    from spgraph_bench.formats import get_format
    from spgraph_bench.variants import get_variant

    source, policies = record.matrix.get("source", {}), dict(record.matrix.get("policies", {}))
    kind, text = source.get("kind"), str(source.get("text", ""))
    if kind in ("stdin", "array"):
        where = "standard input" if kind == "stdin" else "memory"
        raise UsageError(f"{record.variant}: its matrix came from {where}", remedy="compare files")
    words = ["bench", record.problem]
    if kind != "options":
        words += [text]
        if policies.get("base_from") == "option":
            words += ["--base", str(policies["base"])]
        for flag, name, plain in (("--values", "values", "file"), ("--part", "part", None)):
            if kind == "file" and policies.get(name, plain) not in (plain, None):
                words += [flag, str(policies[name])]
        if policies.get("relabelled"):
            words.append("--relabel")
        if policies.get("zeros_dropped"):
            words.append("--drop-zeros")
    device = str(record.device.get("kind", "auto"))
    words += ["--variant", record.variant, "--device", device, "--seed", str(record.seed), "--json", "--no-save"]
    known = _options(record.problem)
    wanted = {"--offsets": record.offsets, "--reorder": record.reorder, "--dtype": record.dtype}
    for flag, value in {**wanted, "--ids": "0"}.items():  # records have vertices as numbers from 0
        if flag in known:
            words += [flag, value]
    variant = get_variant(record.problem, record.variant)
    settable = {*variant.tunables, *get_format(variant.format).tunables}
    for name, value in record.params.items():
        if name in settable:  # the others say what the format came to
            words += ["--param", f"{name}={value}"]
    for name, value in record.given_options.items():
        if (flag := flag_of(name)) not in known:
            raise UsageError(f"{record.variant}: {record.problem} has no {flag} any more", remedy="omit --rerun")
        if not known[flag].is_flag:
            words += [flag, str(value)]
        elif value == "yes":
            words.append(flag)
    return words


def _options(problem: str) -> dict[str, click.Option]:
    """The options of `spgraph bench` for `problem`, by flag. Raises UsageError where there is none."""
    from spgraph_bench.cli.bench import command as bench

    context = click.Context(bench)
    if (made := bench.get_command(context, problem)) is None:
        raise UsageError(f"there is no problem {problem}", remedy="`spgraph list problems` names them")
    return {flag: p for p in made.get_params(context) if isinstance(p, click.Option) for flag in p.opts}


def _measured(python: str, words: Sequence[str]) -> list[Record]:
    from spgraph_bench.results.record import Record

    try:
        done = subprocess.run(
            [python, "-P", "-m", "spgraph_bench", *words], capture_output=True, text=True, timeout=600
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{python} does not run spgraph: {error}", remedy="--base-python, --new-python") from None
    if done.returncode not in (0, 1):
        last = (done.stderr.strip().splitlines() or ["no output"])[0]
        raise UsageError(f"{python} ended with status {done.returncode}: {last[:160]}", remedy="run it by hand")
    return [Record.from_json(json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]


def _rerun(
    result: Comparison,
    base_python: str,
    new_python: str,
    rounds: int,
    rank: Literal["cold", "hot"],
    threshold: float,
    allow: Sequence[str],
) -> Comparison:
    """`result` with its unsure cells measured again, `rounds` turns of each build."""
    from spgraph_bench.results.comparison import compare_records

    for flag, python in (("--base-python", base_python), ("--new-python", new_python)):
        if shutil.which(python) is None:
            raise UsageError(f"{python} is not a program", remedy=f"name a Python with {flag}")
    cells = []
    for cell in result.cells:
        if cell.verdict == "unsure":
            base: list[Record] = []
            new: list[Record] = []
            try:
                words = _command(cell.new)
                for turn in range(rounds):
                    note(f"{cell.new.variant}: turn {turn + 1} of {rounds}")
                    base += _measured(base_python, words)
                    new += _measured(new_python, words)
                again = compare_records(base, new, threshold=threshold, cache=rank, allow=allow)
                same = [c for c in again.cells if c.new.matrix.get("sha256") == cell.new.matrix.get("sha256")]
                if same:
                    cell = replace(same[0], notes=(*cell.notes, f"measured again in {quantity(rounds, 'turn')}"))
                else:
                    warn(f"{cell.new.variant}: the matrix is not the one of the records; the cell stays unsure")
            except UsageError as error:
                warn(f"{cell.new.variant} stays unsure: {error.cause}")
        cells.append(cell)
    return replace(result, cells=tuple(cells))
