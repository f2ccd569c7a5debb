"""`spgraph show`: whatever has a name, as its files explain it; and a matrix in a format."""

from __future__ import annotations

import difflib
import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.options import ParameterType, input_options, json_option
from spgraph_bench.cli.terminal import console, out, out_json, table
from spgraph_bench.errors import UsageError
from spgraph_bench.parameters import Parameter
from spgraph_bench.paths import configs_dir, cuda_dir

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.variants.base import Variant

__all__ = ["command", "find_variant"]


def find_variant(name: str, problem: str | None) -> Variant:
    """The variant called `name`, of `problem` if given. Raises UsageError if there is none, or more than one."""
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
            name: {
                "default": t.default,
                "about": t.about,
                "choices": list(t.choices) if t.choices else None,
                "macro": t.macro,
            }
            for name, t in tunables.items()
        },
        "file": chosen.source,
        "contract": contract,
        "source": source,
        "prepare": prepare,
    }


def _problem_of(name: str) -> dict[str, Any]:
    from spgraph_bench.problems import problems
    from spgraph_bench.variants.base import variants

    problem = problems()[name]
    return {
        "name": name,
        "about": problem.title,
        "rate": problem.rate_unit,
        "value types": ", ".join(problem.dtypes),
        "options": {n: f"{o.about} ({o.domain}) [{o.default_text}]" for n, o in problem.options.items()},
        "variants": ", ".join(v.name for v in variants(name)),
    }


def _format_of(name: str) -> dict[str, Any]:
    from spgraph_bench.formats.base import get_format

    form = get_format(name)
    return {
        "name": name,
        "about": form.title,
        "layout": inspect.getdoc(type(form)) or "",
        "wins": form.wins,
        "nonfinite": "yes" if form.keeps_zeros else "no (fill is multiplied, and 0 times Inf or NaN is NaN)",
        "tunables": {n: f"{p.about} ({p.domain}) [{p.default_text}]" for n, p in form.tunables.items()},
        "example": _example(name),
    }


def _example(name: str) -> list[str]:
    """The format of a small matrix, so that a layout is seen and not only read."""
    from spgraph_bench.formats.base import get_format
    from spgraph_bench.recipes import make
    from spgraph_bench.report.arrays import draw_arrays, list_arrays
    from spgraph_bench.stats import row_stats

    pattern = not get_format(name).keeps_values
    recipe = f"{'blocks:n=2,block=2' if 'bsr' in name else 'arrow:n=4'},values={'ones' if pattern else 'integers'}"
    csr = make(recipe).csr
    if refused := get_format(name).refuse(row_stats(csr), None, force=True):
        return [f"{recipe}: {refused}"]
    packed = get_format(name).pack(csr)
    picture = draw_arrays(packed.arrays, packed.meta, packed.rows)
    return [f"spgraph show {recipe} --format {name}", *picture, *list_arrays(packed.arrays, packed.meta)]


def _recipe_of(name: str) -> dict[str, Any]:
    from spgraph_bench.recipes import recipes

    recipe = recipes()[name]
    parameters = {n: f"{p.about} ({p.domain}) [{p.default_text}]" for n, p in recipe.parameters.items()}
    return {"name": name, "about": recipe.about, "parameters": parameters}


def _reader_of(name: str) -> dict[str, Any]:
    from spgraph_bench.readers import readers

    reader = readers()[name]
    return {"name": name, "about": reader.title, "suffixes": ", ".join(reader.suffixes)}


def _config_of(name: str) -> dict[str, Any]:
    config = tomllib.loads((configs_dir() / f"{name}.toml").read_text(encoding="utf-8"))
    runs = [{**config.get("defaults", {}), **run} for run in config["run"]]
    return {"name": name, "about": config["about"], "runs": [_run_in_words(run) for run in runs]}


def _run_in_words(run: Mapping[str, Any]) -> str:
    """ "spmv: poisson2d:n=32, blocks; dtype float64" """

    def words(value: Any) -> str:
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

    others = [f"{key} {words(value)}" for key, value in run.items() if key not in ("problem", "matrix")]
    head = words(run["problem"]) + (f": {words(run['matrix'])}" if "matrix" in run else "")
    return "; ".join([head, *others])


def _names(kind: str) -> list[str]:
    from spgraph_bench.cli.listing import rows_of

    return [row["name"] for row in rows_of(kind)]


_KINDS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "format": ("formats", _format_of),
    "problem": ("problems", _problem_of),
    "recipe": ("recipes", _recipe_of),
    "reader": ("readers", _reader_of),
    "config": ("configs", _config_of),
}


def _show_facts(facts: Mapping[str, Any]) -> None:
    from rich.text import Text

    target = console()
    target.print(Text(facts["name"], style="bold"), Text(f"- {facts['about']}"))
    for title, value in facts.items():
        if title in ("name", "about") or not value:
            continue
        target.print()
        target.print(Text(title.capitalize(), style="bold"))
        if isinstance(value, dict):
            drawn = table(target, "name", "about")
            for name, text in value.items():
                drawn.add_row(Text(name), Text(text))
            target.print(drawn)
        elif isinstance(value, list):
            out("\n".join(value))
        else:
            out(value)  # lines as their author broke them


def _show_packed(argument: str, form: str, read_options: ReadOptions, most: int, as_json: bool) -> None:
    """The arrays of the format `form` for the matrix `argument`."""
    from spgraph_bench.cli.inputs import load_matrix, warn_of_findings
    from spgraph_bench.formats.base import formats, get_format
    from spgraph_bench.report.arrays import draw_arrays, list_arrays
    from spgraph_bench.stats import row_stats
    from spgraph_bench.units import human_bytes

    if form not in formats():
        close = difflib.get_close_matches(form, formats(), n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`spgraph list formats` names them"
        raise UsageError(f"no format is called {form!r}", remedy=hint)
    matrix = load_matrix(argument, read_options, "")
    warn_of_findings(matrix)
    stats = row_stats(matrix.csr)
    if refused := get_format(form).refuse(stats, None):
        raise UsageError(f"{form}: {refused}", place=matrix.name, remedy="use another format, or another matrix")
    packed = get_format(form).pack(matrix.csr)
    if as_json:
        arrays = {name: array.reshape(-1)[:10_000].tolist() for name, array in packed.arrays.items()}
        facts = {"format": form, "rows": packed.rows, "cols": packed.cols, "nnz": packed.nnz, "arrays": arrays}
        out_json({**facts, "meta": dict(packed.meta), "bytes": packed.stored_bytes}, indent=None)
        return
    width = console().width
    picture = draw_arrays(packed.arrays, packed.meta, packed.rows, most=most, width=width)
    size = f"{matrix.name}: {packed.rows:,} x {packed.cols:,}, {packed.nnz:,} nonzeros"
    each = f", {packed.stored_bytes / packed.nnz:.3g} bytes per nonzero" if packed.nnz else ""
    out(f"{size}; {form} takes {human_bytes(packed.stored_bytes)}{each}\n\n")
    if picture:
        out("\n".join(picture) + "\n\n")
    out("\n".join(list_arrays(packed.arrays, packed.meta, width)))


@click.command("show")
@click.argument("name", metavar="NAME|FILE|RECIPE", shell_complete=completing.names)
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    shell_complete=completing.formats,
    help="Show the arrays of this format for the matrix in FILE.",
)
@click.option(
    "--rows",
    "most",
    type=ParameterType(Parameter(16, "", between=(1, 10_000))),
    default="16",
    show_default=True,
    metavar="N",
    help="--format: rows of the picture.",
)
@click.option("--kind", type=click.Choice(["variant", *_KINDS]), help="Kind of NAME, if the name has several meanings.")
@click.option(
    "--problem",
    metavar="NAME",
    shell_complete=completing.problems,
    help="Problem of the variant, if several problems have one of this name.",
)
@input_options
@json_option
def command(
    name: str,
    form: str | None,
    most: int,
    kind: str | None,
    problem: str | None,
    read_options: ReadOptions,
    as_json: bool,
) -> None:
    """Explain a variant, format, problem, recipe, reader or config; or show a matrix in a format.

    Of a variant: what it computes and how, its tunables, its format's arrays, its source. Of a format: its
    layout and invariants, when it wins, and a small example.

    \b
      spgraph show csr-vector
      spgraph show ell --kind format
      spgraph show matrix.mtx --format sell
    """
    if form is not None:
        _show_packed(name, form, read_options, most, as_json)
        return
    kinds = [k for k, (listed, _) in _KINDS.items() if kind in (None, k) and name in _names(listed)]
    is_variant = kind in (None, "variant") and name in _names("variants")
    if kind is not None and kind != "variant" and not kinds:
        raise UsageError(f"no {kind} is called {name!r}", remedy=f"`spgraph list {_KINDS[kind][0]}` names them")
    if not kinds or is_variant or problem is not None:
        try:
            _show_variant(describe(find_variant(name, problem)), as_json)
            return
        except UsageError as error:
            if kinds and problem is None and error.remedy:
                error.remedy += "".join(f", or --kind {k}" for k in kinds)
            raise
    facts = _KINDS[kinds[0]][1](name)
    if as_json:
        out_json(facts)
    else:
        _show_facts(facts)


def _show_variant(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        out_json(facts)
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
            out(text.rstrip())

    target.print(Text(f"{facts['problem']} {facts['name']}", style="bold"), Text(f"- {facts['about']}"))
    where = {"gpu": "the device", "cpu": "the CPU"}[facts["runs_on"]]
    target.print(f"by {facts['by']}, on {where}, in {' and '.join(facts['dtypes'])}")
    if facts["for_matrix"]:
        target.print("compiled for one matrix: another one needs its own compile, which counts as setup")
    if facts["contract"]:
        head("Contract")
        out(facts["contract"])
    if facts["layout"]:
        head(f"Format {facts['format']}")
        out(facts["layout"])
    if not facts["nonfinite"]:
        out("nonfinite: no (fill is multiplied, and 0 times Inf or NaN is NaN)")
    if facts["tunables"]:
        head("Tunables (--param NAME=VALUE)")
        drawn = table(target, "name", "default", "choices", "-D", "about")
        for name, t in facts["tunables"].items():
            choices = ", ".join(map(str, t["choices"] or ()))
            default = "automatic" if t["default"] is None else str(t["default"])
            drawn.add_row(*map(Text, (name, default, choices, t["macro"], t["about"])))
        target.print(drawn)
    if facts["file"]:
        head(str(facts["file"]) if facts["file"].startswith("/") else f"cuda/{facts['file']}")
        code(facts["source"], "cuda")
    head("Host function")
    code(facts["prepare"], "python")
