"""What a shell completes: files, which every input may be, and names of recipes, variants, formats and the rest.

Functions for click's ``shell_complete``. Registries are imported when a shell asks, not with the command line.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = [
    "claims",
    "configs_and_inputs",
    "file",
    "formats",
    "gpus",
    "input_file",
    "names",
    "problems",
    "readers",
    "tunables",
    "variants",
]

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _starting(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in dict.fromkeys(words) if word.startswith(incomplete)]


def _with_files(words: list[CompletionItem], incomplete: str) -> list[CompletionItem]:
    """`words` and the shell's own completion of file names.

    bash takes its own only where nothing else is offered: there words are offered where no file begins so.
    """
    files = [CompletionItem(incomplete, type="file")]
    if not os.environ.get("_SPGRAPH_COMPLETE", "").startswith("bash"):
        return [*files, *words]
    there = any(True for _ in glob.iglob(f"{glob.escape(os.path.expanduser(incomplete))}*"))
    return words if words and incomplete and not there else files


def file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own completion of file names."""
    return [CompletionItem(incomplete, type="file")]


def _recipes(incomplete: str) -> list[CompletionItem]:
    """Names of recipes; behind the colon of one, its parameters."""
    from spgraph_bench.recipes import recipes

    name, colon, rest = incomplete.partition(":")
    if not colon:
        return _starting(recipes(), incomplete)
    if name not in recipes():
        return []
    given, _, last = rest.rpartition(",")
    used = {part.partition("=")[0] for part in given.split(",")}
    before = f"{name}:{given}," if given else f"{name}:"
    return _starting((f"{before}{key}=" for key in recipes()[name].parameters if key not in used), before + last)


def input_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A file, or a recipe."""
    return _with_files(_recipes(incomplete), incomplete)


def configs_and_inputs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A config that comes with spgraph, a file, or a recipe."""
    from spgraph_bench.sweep.config import config_names

    return _with_files([*_starting(config_names(), incomplete), *_recipes(incomplete)], incomplete)


def _problem(ctx: click.Context) -> str | None:
    """The problem that the command line is about, if it is about one."""
    problem = getattr(ctx.command, "problem", None)
    return None if problem is None else str(problem.name)


def _variants(ctx: click.Context) -> list[Any]:
    from spgraph_bench.variants import variants as registered

    problem = _problem(ctx)
    return list(registered() if problem is None else registered(problem))


def variants(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Variants of the command's problem, or all."""
    return _starting((v.name for v in _variants(ctx)), incomplete)


def formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Formats that the problem's variants read, or all."""
    from spgraph_bench.formats import formats as registered

    read = [v.format for v in _variants(ctx)] if _problem(ctx) is not None else registered()
    return _starting(read, incomplete)


def tunables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """``NAME=`` of the tunables of the problem's variants and their formats; behind it the values it may have."""
    from spgraph_bench.formats import get_format

    known: dict[str, Any] = {}
    for variant in _variants(ctx):
        known |= {**get_format(variant.format).tunables, **variant.tunables}
    name, equals, _ = incomplete.partition("=")
    if not equals:
        return _starting((f"{key}=" for key in sorted(known)), incomplete)
    choices = known[name].choices or () if name in known else ()
    return _starting((f"{name}={choice}" for choice in choices), incomplete)


def readers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Input formats."""
    from spgraph_bench.readers import readers as registered

    return _starting(registered(), incomplete)


def problems(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Problems."""
    from spgraph_bench.problems import problems as registered

    return _starting(sorted(registered()), incomplete)


def names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Whatever `spgraph show` explains: variants, formats, problems, recipes, readers, configs; or a file."""
    from spgraph_bench.problems import problems as registered
    from spgraph_bench.sweep.config import config_names

    words = [*variants(ctx, param, incomplete), *formats(ctx, param, incomplete), *_recipes(incomplete)]
    words += [*_starting([*sorted(registered()), *config_names()], incomplete), *readers(ctx, param, incomplete)]
    return _with_files(list({word.value: word for word in words}.values()), incomplete)


def gpus(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """GPUs that sizes are known of."""
    from spgraph_bench.gpus import GPUS

    return _starting((gpu.name.replace(" ", "-") for gpu in GPUS), incomplete)


def claims(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of claims."""
    from spgraph_bench.claims import claims as registered

    return _starting(registered(), incomplete)
