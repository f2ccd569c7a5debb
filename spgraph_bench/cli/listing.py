"""`spgraph list`: everything that the registries know."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import click

from spgraph_bench.cli.options import json_option
from spgraph_bench.cli.terminal import console, out_json, table

__all__ = ["command", "rows_of"]

Row = dict[str, Any]


def _problems() -> list[Row]:
    from spgraph_bench.problems.base import problems

    return [
        {"name": p.name, "about": p.title, "rate": p.rate_unit}
        for p in sorted(problems().values(), key=lambda p: p.name)
    ]


def _formats() -> list[Row]:
    from spgraph_bench.formats.base import formats

    return [
        {
            "name": f.name,
            "about": f.title,
            "nonfinite": "" if f.keeps_zeros else "no",  # see Format.keeps_zeros
            "tunables": list(f.tunables),
        }
        for f in formats().values()
    ]


def _variants() -> list[Row]:
    from spgraph_bench.variants.base import variants

    return [
        {
            "problem": v.problem,
            "name": v.name,
            "format": v.format,
            "by": v.library or "spgraph",
            "runs on": v.where,
            "about": v.about,
            "tunables": list(v.tunables),
        }
        for v in variants()
    ]


def _recipes() -> list[Row]:
    from spgraph_bench.recipes import recipes

    return [
        {"name": r.name, "about": r.about, "parameters": {name: p.default_text for name, p in r.parameters.items()}}
        for r in recipes().values()
    ]


def _readers() -> list[Row]:
    from spgraph_bench.readers import readers

    return [{"name": r.name, "about": r.title, "suffixes": list(r.suffixes)} for r in readers().values()]


def _configs() -> list[Row]:
    from spgraph_bench.paths import configs_dir

    rows = []
    for path in sorted(configs_dir().glob("*.toml")):
        config = tomllib.loads(path.read_text(encoding="utf-8"))
        rows.append({"name": path.stem, "about": config["about"], "runs": len(config["run"])})
    return rows


_KINDS: dict[str, Callable[[], list[Row]]] = {
    "problems": _problems,
    "formats": _formats,
    "variants": _variants,
    "recipes": _recipes,
    "readers": _readers,
    "configs": _configs,
}


def rows_of(kind: str) -> list[Row]:
    """What `kind` ("variants") lists, a dict each with its ``name``."""
    return _KINDS[kind]()


_LONG = {"about", "tunables", "parameters", "suffixes"}
"""Columns that may wrap; a name never does."""


def _tables(kind: str, rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """What is drawn, with titles: of variants one table for each problem, without what `show` explains."""
    if kind != "variants":
        return [(kind, rows)]
    drawn: dict[str, list[Row]] = {}
    for row in rows:
        by = "" if row["by"] == "spgraph" else row["by"] + (", cpu" if row["runs on"] == "cpu" else "")
        summary = {"name": row["name"], "format": row["format"], "by": by, "about": row["about"]}
        drawn.setdefault(row["problem"], []).append(summary)
    return [(f"variants of {problem}", chosen) for problem, chosen in drawn.items()]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={default}" for name, default in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@click.command("list")
@click.argument("kinds", nargs=-1, type=click.Choice(list(_KINDS)), metavar="[KIND]...")
@json_option
def command(kinds: tuple[str, ...], as_json: bool) -> None:
    """List problems, formats, variants, recipes, readers and configs: all, or only the KINDs named.

    A recipe can replace any file: `spgraph info rmat:scale=14`. --input-format takes a reader's name.
    """
    rows_of = {kind: rows() for kind, rows in _KINDS.items() if not kinds or kind in kinds}
    if as_json:
        out_json(rows_of)
        return
    from rich.text import Text

    target = console()
    tables = [made for kind, rows in rows_of.items() for made in _tables(kind, rows)]
    for number, (title, rows) in enumerate(tables):
        if number:
            target.print()
        columns = list(rows[0]) if rows else []
        shown = [c for c in columns if any(row[c] for row in rows)]
        drawn = table(target, *shown, title=title)
        for column in drawn.columns:
            column.no_wrap = column.header not in _LONG
        for row in rows:
            drawn.add_row(*(Text(_cell(row[column])) for column in shown))
        target.print(drawn)
