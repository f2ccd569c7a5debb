"""`spgraph claims [NAME]...`: claims about these kernels, measured again: claim, measurement, verdict, reason."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.keeping import kept_records
from spgraph_bench.cli.options import PathParam, Positive, RunOptions, device_option, json_option
from spgraph_bench.cli.running import show_progress
from spgraph_bench.cli.terminal import console, note, out, out_json, warn
from spgraph_bench.errors import UsageError
from spgraph_bench.paths import results_folder

if TYPE_CHECKING:
    from spgraph_bench.claims import Claim, Figure, Judged
    from spgraph_bench.results.record import Record

__all__ = ["command", "markdown"]


@click.command("claims")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completing.claims)
@device_option
@click.option(
    "--records",
    "sources",
    multiple=True,
    type=PathParam(),
    metavar="PATH",
    help="Judge from these records (files, folders), and run nothing; repeatable.",
)
@click.option(
    "--time-limit",
    type=Positive(),
    default=RunOptions.time_limit,
    show_default=True,
    metavar="SECONDS",
    help="Stop sampling a variant after this long.",
)
@click.option("--in-process", is_flag=True, help="No worker, no watchdog: for profilers and sanitizers.")
@click.option("--no-save", is_flag=True, help="Do not save records.")
@click.option(
    "--results",
    type=PathParam(file_okay=False),
    metavar="DIR",
    help="Folder for the records [default: SPGRAPH_RESULTS, else results/ in ~/.local/share/spgraph].",
)
@click.option("--markdown", "as_markdown", is_flag=True, help="As Markdown, for a page.")
@json_option
def command(
    names: tuple[str, ...],
    device: str,
    sources: tuple[Path, ...],
    time_limit: float,
    in_process: bool,
    no_save: bool,
    results: Path | None,
    as_markdown: bool,
    as_json: bool,
) -> int:
    """Measure what is taught about these kernels: the claim, the measurement, the verdict and the reason.

    Without NAMEs all claims. Without a GPU, claims that counts can judge are judged; the others need one.

    \b
      spgraph claims
      spgraph claims hyb-csr privatisation
      spgraph claims --records results/h200 --markdown
    """
    from spgraph_bench.claims import judge_records

    if as_json and as_markdown:
        raise UsageError("--json and --markdown exclude each other", remedy="omit one of them")
    chosen = _chosen(names)
    if sources:
        if click.get_current_context().get_parameter_source("device") is not click.core.ParameterSource.DEFAULT:
            raise UsageError("--records runs nothing, so no device is needed", remedy="omit --device")
        from spgraph_bench.results.store import read_records

        _print(judge_records(chosen, list(read_records(list(sources), warn))), as_json, as_markdown)
        return 0
    options = RunOptions(device=device, time_limit=time_limit, save=not no_save, results=results or results_folder())
    judged: list[Judged] = []
    try:
        right = _measured(chosen, options, in_process, judged)
    finally:  # after an interrupt, what is finished
        if judged:
            _print(judged, as_json, as_markdown)
    return 0 if right else 1


def _print(judged: Sequence[Judged], as_json: bool, as_markdown: bool) -> None:
    if as_json:
        out_json({"schema": "spgraph-claims-1", "claims": [_plain(j) for j in judged]})
    elif as_markdown:
        out(markdown(judged))
    else:
        _show(judged)


def _chosen(names: Sequence[str]) -> list[Claim]:
    from spgraph_bench.claims import claims

    known = claims()
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=2)
            remedy = f"did you mean {' or '.join(close)}?" if close else f"one of {', '.join(known)}"
            raise UsageError(f"no claim is called {name!r}", remedy=remedy)
    return [claim for name, claim in known.items() if not names or name in names]


def _measured(chosen: Sequence[Claim], options: RunOptions, in_process: bool, judged: list[Judged]) -> bool:
    """Put verdicts into `judged` as they come; whether no variant was wrong or failed."""
    from spgraph_bench.claims import measure
    from spgraph_bench.device.probe import choose_device

    choice = choose_device(options.device)
    if choice.warning:
        warn(choice.warning)
    if choice.note:
        note(choice.note)
    right = True
    ran = choice.name != "host" or any(claim.counted for claim in chosen)
    with (
        kept_records(options, "claims", choice.name.replace(":", "-")) if ran else nullcontext(lambda r: None) as keep,
        show_progress() as progress,
    ):

        def on_record(record: Record) -> None:
            nonlocal right
            right &= record.status not in ("wrong", "failed")
            keep(record)

        for outcome in measure(
            chosen,
            choice.name,
            time_limit=options.time_limit,
            in_process=in_process,
            on_record=on_record,
            progress=progress,
        ):
            judged.append(outcome)  # noqa: PERF402
    return right


def _number(figure: Figure) -> str:
    from spgraph_bench.report.text import significant
    from spgraph_bench.units import human_bytes

    def one(value: float) -> str:
        if figure.unit == "bytes":
            return human_bytes(value)
        if not figure.unit and float(value).is_integer():
            return f"{value:,.0f}"
        return "never" if value == float("inf") else significant(value)

    unit = {"bytes": "", "": "", "x": "x"}.get(figure.unit, f" {figure.unit}")
    text = f"{one(figure.value)}{unit}"
    if figure.low is not None and figure.high is not None:
        text += f" ({one(figure.low)} to {one(figure.high)})"
    return text


def _plain(judged: Judged) -> dict[str, object]:
    claim, verdict = judged.claim, judged.verdict
    figures = [{**asdict(f), "value": None if f.value == float("inf") else f.value} for f in verdict.figures]
    return {
        "name": claim.name,
        "said": claim.text,
        "taught": claim.taught,
        "verdict": verdict.status,
        "why": verdict.why,
        "measured": figures,
        "changed": list(verdict.changed),
        "device": judged.device,
    }


def _why(judged: Judged) -> str:
    verdict = judged.verdict
    text = verdict.why
    if verdict.changed:
        text += f" (measured before {', '.join(verdict.changed)} last changed)"
    return f"{text}."


def _show(judged: Sequence[Judged]) -> None:
    from rich.table import Table
    from rich.text import Text

    target = console()
    for j in judged:
        target.print(Text.assemble((j.claim.name, "bold"), f"  {j.verdict.status}"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row("  claim", Text(f"{j.claim.text} ({j.claim.taught})"))
        for number, figure in enumerate(j.verdict.figures):
            grid.add_row("" if number else "  measured", Text(f"{figure.what}: {_number(figure)}"))
        grid.add_row("  why", Text(_why(j)))
        target.print(grid)
        target.print()
    out(_summary(judged))


def _summary(judged: Sequence[Judged]) -> str:
    devices = ", ".join(dict.fromkeys(j.device for j in judged if j.device)) or "no device"
    counts = Counter(j.verdict.status for j in judged)
    totals = ", ".join(f"{n} {status}" for status, n in counts.items())
    return f"{len(judged)} {'claim' if len(judged) == 1 else 'claims'} on {devices}: {totals}"


def markdown(judged: Sequence[Judged]) -> str:
    """A table, a row for each claim; † where a kernel is another one now than the one that was measured."""
    lines = ["| claim | measured | verdict | why |", "| --- | --- | --- | --- |"]
    for j in judged:
        measured = "<br>".join(f"{f.what}: {_number(f)}" for f in j.verdict.figures) or "-"
        claim_text = f"{j.claim.text} (`{j.claim.name}`; {j.claim.taught})"
        cells = (claim_text, measured, f"**{j.verdict.status}**{'†' if j.verdict.changed else ''}", f"{j.verdict.why}.")
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join([*lines, "", f"{_summary(judged)}."]) + "\n"
