"""What a recipe is, the list of them, and the way from a recipe's text to a matrix."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import CSR, Matrix, Policies, Source
from spgraph_bench.parameters import MAX_INDEX, Parameter
from spgraph_bench.readers.common import Progress, require_memory
from spgraph_bench.recipes.values import entry_values, integer_values, stencil_values
from spgraph_bench.registry import Registry
from spgraph_bench.stats import diagonal_entries

__all__ = ["Pattern", "Recipe", "Size", "make", "names", "parse", "recipe", "recipes", "size_of"]


@dataclass(frozen=True)
class Pattern:
    """What a recipe's function returns: canonical CSR positions (see CSR for the invariants)."""

    rows: int
    cols: int
    row_ptr: npt.NDArray[np.int64]
    col_idx: npt.NDArray[np.int32]
    merged: int = 0
    """Entries drawn more than once and merged."""
    symmetric: bool = False
    """The pattern is symmetric by construction; its values will be, too."""
    values: npt.NDArray[np.float64] | None = None
    """The recipe's own, if it has some: entries drawn more than once are summed."""


@dataclass(frozen=True)
class Size:
    """What a recipe will take, known before anything is allocated."""

    rows: int
    cols: int
    entries: int
    """At most so many, before merging."""
    scratch: int = 0
    """Bytes needed beside the result."""


@dataclass(frozen=True)
class Recipe:
    """One recipe. See :func:`recipe` for the fields."""

    name: str
    about: str
    parameters: Mapping[str, Parameter]
    """By name, in the order of the canonical text."""
    short: str
    size: Callable[..., Size]
    build: Callable[..., Pattern]
    stencil: float | None = None
    own_values: tuple[str, str] | None = None

    def text(self, values: Mapping[str, Any]) -> str:
        """The canonical text: every parameter, in fixed order."""
        return f"{self.name}:" + ",".join(f"{n}={p.text(values[n])}" for n, p in self.parameters.items())

    def short_name(self, values: Mapping[str, Any]) -> str:
        """A name for tables and files: "rmat20"; parameters that are not their defaults are added."""
        shown = set(re.findall(r"{(\w+)}", self.short))
        name = self.short.format_map({n: _human(values[n]) for n in shown})
        for key, p in self.parameters.items():
            if key not in shown and values[key] != p.default_in(values):
                text = p.text(values[key])
                name += f"-{text}" if p.choices else f"-{key}{text}"
        return name


_RECIPES: Registry[str, Recipe] = Registry("recipe", "spgraph_bench.recipes")


def recipe(
    name: str,
    parameters: Mapping[str, Parameter] = MappingProxyType({}),
    *,
    about: str,
    short: str,
    size: Callable[..., Size],
    values: str = "random",
    stencil: float | None = None,
    own_values: tuple[str, str] | None = None,
) -> Callable[[Callable[..., Pattern]], Callable[..., Pattern]]:
    """Register the decorated function as a recipe and return it unchanged.

    Every recipe gets two more parameters, ``values`` and ``seed``. The function and `size` take as keywords
    those parameters that their signatures name; the function may also take ``progress``. `size` raises
    ValueError where parameters contradict each other.

    Parameters
    ----------
    about : one line for the lists; the function's docstring, unless it has its own.
    short : template of the matrix's name: "rmat{scale}".
    values : default of the parameter ``values``, unless there are `own_values`.
    stencil : the diagonal that ``values=stencil`` gives, with -1 elsewhere; None: not a choice.
    own_values : the name of another choice, the default, and what it gives: :attr:`Pattern.values`.
    """
    choices = ("random", "integers", "ones", "none", *(("stencil",) if stencil is not None else ()))
    choices = choices if own_values is None else (*choices, own_values[0])
    kinds = "uniform in [0, 1), whole in 1 to 255, stored ones, or none (a pattern)"
    if stencil is not None:
        kinds += f"; stencil: {stencil:g} and -1"
    if own_values is not None:
        values, kinds = own_values[0], f"{kinds}; {own_values[0]}: {own_values[1]}"
    every = {
        **parameters,
        "values": Parameter(values, kinds, choices),
        "seed": Parameter(1, "seed of everything random", between=(0, 2**63 - 1)),
    }

    def enter(build: Callable[..., Pattern]) -> Callable[..., Pattern]:
        build.__doc__ = build.__doc__ or f"The pattern of `{name}`: {about}."
        _RECIPES.enter(name, Recipe(name, about, MappingProxyType(every), short, size, build, stencil, own_values))
        return build

    return enter


def recipes() -> dict[str, Recipe]:
    """All recipes by name, in alphabetical order."""
    return dict(sorted(_RECIPES.entries().items()))


def names() -> Sequence[str]:
    """The names of all recipes."""
    return list(recipes())


def parse(text: str) -> tuple[Recipe, dict[str, Any]]:
    """The recipe that `text` names and the value of each of its parameters, in their order.

    Raises InputError, with close matches, for an unknown recipe or parameter and a value out of bounds.
    """
    head, colon, rest = text.strip().partition(":")
    known = recipes()
    if head not in known:
        raise InputError(f"there is no recipe {head!r}", place=text, remedy=_nearest(head, known, "recipes are"))
    recipe = known[head]
    given: dict[str, Any] = {}
    for item in rest.split(",") if colon else ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise InputError(
                f"{item.strip()!r} is not NAME=VALUE", place=text, remedy=f"e.g. {recipe.name}:{_example(recipe)}"
            )
        if name not in recipe.parameters:
            raise InputError(
                f"{head} has no parameter {name!r}",
                place=text,
                remedy=_nearest(name, recipe.parameters, f"parameters of {head} are"),
            )
        if name in given:
            raise InputError(f"{name} is given twice", place=text, remedy="omit one of them")
        try:
            given[name] = recipe.parameters[name].parse(value)
        except ValueError as error:
            p = recipe.parameters[name]
            raise InputError(f"{name} {error}", place=text, remedy=f"{name} takes {p.domain} ({p.about})") from None
    values: dict[str, Any] = {}
    for name, p in recipe.parameters.items():
        values[name] = given[name] if name in given else p.default_in(values)
    return recipe, values


def size_of(recipe: Recipe, values: Mapping[str, Any], text: str) -> Size:
    """What the matrix will take, before it is made. Raises InputError, with `text` as its place, for parameters that
    contradict each other and sizes beyond 32-bit indices."""
    try:
        size: Size = _call(recipe.size, values)
    except ValueError as error:
        raise InputError(str(error), place=text, remedy=f"defaults: {_example(recipe)}") from None
    if max(size.rows, size.cols) > MAX_INDEX:
        raise InputError(
            f"{size.rows:,} x {size.cols:,} is beyond the {MAX_INDEX:,} rows and columns of 32-bit indices",
            place=text,
            remedy="take a smaller one",
        )
    return size


def make(text: str, progress: Progress | None = None) -> Matrix:
    """The matrix of a recipe's text, e.g. ``poisson2d:n=2048``; parameters omitted take their defaults.

    Raises InputError for a text that is not a recipe, parameters that contradict each other, and a matrix that
    does not fit in memory (before anything is allocated, with the figures).
    """
    recipe, values = parse(text)
    canonical = recipe.text(values)
    size = size_of(recipe, values, text)
    weighted = values["values"] != "none"
    needed = 8 * (size.rows + 1) + size.entries * (12 if weighted else 4) + size.scratch + 64 * 2**20
    what = f"a matrix of {size.rows:,} rows and up to {size.entries:,} entries"
    require_memory(needed, what, text, "take a smaller one")

    say = progress or (lambda doing, fraction: None)
    pattern: Pattern = _call(recipe.build, {**values, "progress": say})
    csr = CSR(pattern.rows, pattern.cols, pattern.row_ptr, pattern.col_idx, None)
    symmetric = pattern.symmetric
    array: npt.NDArray[np.float64] | None
    match values["values"]:
        case "random":
            array = entry_values(csr, values["seed"], symmetric, say)
        case "integers":
            array = integer_values(csr, values["seed"], symmetric, say)
        case "ones":
            array = np.ones(csr.nnz)
        case "stencil":
            assert recipe.stencil is not None
            array = stencil_values(csr, recipe.stencil)
        case "none":
            array = None
        case _:
            array = pattern.values
    say("hashing", None)
    return Matrix(
        name=recipe.short_name(values),
        csr=CSR(csr.rows, csr.cols, csr.row_ptr, csr.col_idx, array),
        source=Source("recipe", canonical, "recipe"),
        symmetry="symmetric" if symmetric else "general",
        weighted=weighted,
        policies=Policies(
            duplicates="first" if array is None or array is not pattern.values else "sum",
            duplicates_found=pattern.merged,
            self_loops=diagonal_entries(csr),
        ),
    )


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    return function(**{name: values[name] for name in inspect.signature(function).parameters})


def _nearest(word: str, known: Mapping[str, Any], otherwise: str) -> str:
    close = difflib.get_close_matches(word, known, n=2)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{hint}{otherwise} {', '.join(known)}"


def _example(recipe: Recipe) -> str:
    defaults: dict[str, Any] = {}
    for name, p in recipe.parameters.items():
        defaults[name] = p.default_in(defaults)
    return ",".join(f"{name}={p.text(defaults[name])}" for name, p in recipe.parameters.items())


def _human(value: object) -> str:
    """4000000 -> 4M, 65536 -> 65536, 100000 -> 100k."""
    if isinstance(value, int) and value >= 10_000:
        for unit, step in (("M", 1_000_000), ("k", 1_000)):
            if value % step == 0:
                return f"{value // step}{unit}"
    return str(value)
