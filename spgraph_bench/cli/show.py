"""`spgraph show`: one variant, as its files explain it."""

from __future__ import annotations

import difflib
import inspect
import json
import re
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.options import json_option
from spgraph_bench.cli.terminal import console, table
from spgraph_bench.errors import UsageError
from spgraph_bench.paths import cuda_dir

if TYPE_CHECKING:
    from spgraph_bench.variants.base import Variant

__all__ = ["command"]


def _find(name: str, problem: str | None) -> Variant:
    from spgraph_bench.variants.base import variants

    known = variants()
    if problem is not None and problem not in (problems := sorted({v.problem for v in known})):
        raise UsageError(f"no problem is called {problem!r}", remedy=f"problems are {', '.join(problems)}")
    fitting = [v for v in known if v.name == name and problem in (None, v.problem)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        owners = " or ".join(f"--problem {v.problem}" for v in fitting)
        raise UsageError(f"{name} is a variant of several problems", remedy=owners)
    if problem is None and any(v.problem == name for v in known):
        raise UsageError(
            f"{name} is a problem, not a variant", remedy="`spgraph list variants` names its variants"
        )
    names = {v.name for v in known if problem in (None, v.problem)}
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(close)}?" if close else "`spgraph list variants` names them"
    raise UsageError(f"no variant is called {name!r}", remedy=hint)


def opening_comment(source: str) -> tuple[str, str]:
    """The comment that opens a .cu file, without its slashes or stars, and the rest of the file."""
    if block := re.match(r"\s*/\*(.*?)\*/[ \t]*\n?", source, re.DOTALL):
        lines = [re.sub(r"^\s*\*? ?", "", line) for line in block[1].strip("\n").splitlines()]
        return "\n".join(lines).strip(), source[block.end() :].lstrip("\n")
    if slashes := re.match(r"(?:[ \t]*//[^\n]*\n)+", source):
        lines = [re.sub(r"^\s*// ?", "", line) for line in slashes[0].splitlines()]
        return "\n".join(lines).strip(), source[slashes.end() :].lstrip("\n")
    return "", source


def describe(chosen: Variant) -> dict[str, Any]:
    """All that there is to say about a variant, as plain data."""
    from spgraph_bench.formats.base import get_format

    try:
        layout = get_format(chosen.format)
    except KeyError:  # a plugin's, perhaps
        layout = None
    prepare = inspect.getsource(chosen.prepare)
    contract, source = inspect.getdoc(chosen.prepare) or "", prepare
    if chosen.source is not None:
        path = cuda_dir() / chosen.source
        contract, source = opening_comment(path.read_text(encoding="utf-8"))
    tunables = {**(layout.tunables if layout else {}), **chosen.tunables}
    return {
        "problem": chosen.problem,
        "name": chosen.name,
        "about": chosen.about,
        "format": chosen.format,
        "layout": inspect.getdoc(type(layout)) if layout else "",
        "nonfinite": layout is None or layout.keeps_zeros,
        "by": chosen.library or "spgraph",
        "runs_on": chosen.where,
        "dtypes": list(chosen.dtypes),
        "for_matrix": chosen.for_matrix,
        "tunables": {
            name: {"default": t.default, "about": t.about, "choices": list(t.choices) if t.choices else None}
            for name, t in tunables.items()
        },
        "file": chosen.source,
        "contract": contract,
        "source": source,
        "prepare": prepare,
    }


@click.command("show")
@click.argument("variant")
@click.option(
    "--problem", metavar="NAME", help="Whose variant, where several problems have one of this name."
)
@json_option
def command(variant: str, problem: str | None, as_json: bool) -> None:
    """One variant: what it computes and how, its tunables, its format's arrays, its source."""
    facts = describe(_find(variant, problem))
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
        return
    from rich.syntax import Syntax
    from rich.text import Text

    target = console()

    def head(text: str) -> None:
        target.print()
        target.print(Text(text, style="bold"))

    def code(text: str, language: str) -> None:
        if target.is_terminal:
            # As text that the terminal may wrap: a Syntax block would cut long lines off.
            highlighted = Syntax("", language, theme="ansi_dark", background_color="default").highlight(text)
            target.print(highlighted, soft_wrap=True, end="")
        else:
            click.echo(text.rstrip())

    target.print(Text(f"{facts['problem']} {facts['name']}", style="bold"), Text(f"- {facts['about']}"))
    where = {"gpu": "the device", "cpu": "the CPU"}[facts["runs_on"]]
    target.print(f"by {facts['by']}, on {where}, in {' and '.join(facts['dtypes'])}")
    if facts["for_matrix"]:
        target.print("compiled for one matrix: another one needs its own compile, which counts as setup")
    if facts["contract"]:
        head("Contract")
        click.echo(facts["contract"])
    if facts["layout"]:
        head(f"Format {facts['format']}")
        click.echo(facts["layout"])
    if not facts["nonfinite"]:
        click.echo("nonfinite: no (fill is multiplied, and 0 times Inf or NaN is NaN)")
    if facts["tunables"]:
        head("Tunables (--param NAME=VALUE)")
        drawn = table(target, "name", "default", "choices", "about")
        for name, t in facts["tunables"].items():
            choices = ", ".join(map(str, t["choices"] or ()))
            default = "found by itself" if t["default"] is None else str(t["default"])
            drawn.add_row(*map(Text, (name, default, choices, t["about"])))
        target.print(drawn)
    if facts["file"]:
        head(str(facts["file"]) if facts["file"].startswith("/") else f"cuda/{facts['file']}")
        code(facts["source"], "cuda")
    head("Host function")
    code(facts["prepare"], "python")
