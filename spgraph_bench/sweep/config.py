"""What is to be run: the entries of a config file, or one made of a command line, checked as a whole.

A config is TOML::

    about = "one line about it"
    [defaults]                       # keys that each run has unless it says otherwise
    time-limit = 0.1
    [[run]]
    problem = "spmm"                 # or a list
    matrix = ["blocks:n=2^4..2^6", "files/*.mtx"]
    k = [8, 32]                      # the problem's own option: one run for each value
    dtype = ["float32", "float64"]
    variant = "csr-*"

Keys are the options of ``spgraph bench``, without the dashes in front. Paths are relative to the config's folder.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spgraph_bench.errors import InputError, SpgraphError, UsageError
from spgraph_bench.parameters import BASELINE_SECONDS, MIN_SAMPLES, WARMUP, Parameter
from spgraph_bench.paths import configs_dir
from spgraph_bench.problems import get_problem, problems
from spgraph_bench.readers import readers
from spgraph_bench.readers.common import ReadOptions
from spgraph_bench.reorder import ORDERS
from spgraph_bench.runner.choosing import check_params, chosen_variants
from spgraph_bench.sweep.inputs import Input, find_inputs, with_digests
from spgraph_bench.sweep.toml_places import Places, places
from spgraph_bench.variants import select

__all__ = [
    "Config",
    "Entry",
    "config_names",
    "digested",
    "entries_of",
    "find_config",
    "name_of",
    "narrowed",
    "read_config",
]


@dataclass(frozen=True)
class Entry:
    """One problem with one set of options, on some inputs."""

    problem: str
    inputs: tuple[Input, ...]
    """One of kind "options" where the problem makes its own."""
    variants: tuple[str, ...]
    """Names, not globs."""
    dtypes: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    """The problem's own that were given; vertices as the input calls them."""
    reorder: tuple[str, ...] = ("none",)
    params: Mapping[str, str] = field(default_factory=dict)
    seed: int = 1
    time_limit: float = 0.25
    offsets: str | None = None
    force_format: bool = False
    ids: str = "file"
    """"0": vertices of options are numbers that count from 0."""
    min_samples: int | None = None
    warmup: int | None = None
    baseline_seconds: float | None = None
    place: str = ""
    """``file:line`` of its ``[[run]]``."""


@dataclass(frozen=True)
class Config:
    """A whole config."""

    name: str
    about: str
    path: Path | None
    entries: tuple[Entry, ...]


_SWITCH = (False, True)
_READ: dict[str, Parameter] = {
    "input_format": Parameter("", "format of the files", kind=str),
    "base": Parameter(None, "first index in the file", (0, 1)),
    "symmetrize": Parameter(False, "add the transpose of every entry", _SWITCH),
    "duplicates": Parameter(None, "what becomes of entries at the same place", ("sum", "min", "max", "first", "last")),
    "drop_zeros": Parameter(False, "drop entries that are stored, but zero", _SWITCH),
    "values": Parameter("file", "values of the entries", ("file", "ones", "random", "integers")),
    "relabel": Parameter(False, "close gaps in vertex ids", _SWITCH),
    "weight_column": Parameter(
        None, "column of an edge list that has the weights, 0: none", between=(0, 999), kind=int
    ),
    "bipartite": Parameter(False, "rows and columns are the two sides of a graph", _SWITCH),
    "part": Parameter(None, "part of complex values", ("real", "imag", "abs")),
}
"""Keys that say how files are read; those of ``ReadOptions``."""
_RUN: dict[str, Parameter] = {
    "reorder": Parameter("none", "orders of rows and columns", tuple(ORDERS)),
    "seed": Parameter(1, "seed of everything random", between=(0, 2**63 - 1)),
    "time_limit": Parameter(0.25, "seconds of sampling for each variant", between=(0.001, 86400.0)),
    "min_samples": MIN_SAMPLES,
    "warmup": WARMUP,
    "baseline_seconds": BASELINE_SECONDS,
    "offsets": Parameter("auto", "type of row offsets", ("auto", "int32", "int64")),
    "ids": Parameter("file", "what vertices are called", ("file", "0")),
    "force_format": Parameter(False, "pack even if a format wastes memory", _SWITCH),
}
_OWN = ("problem", "matrix", "variant", "format", "dtype", "param")
Fail = Callable[[str, str | None, object, str], InputError | UsageError]


def config_names() -> list[str]:
    """The configs that come with spgraph."""
    return sorted(path.stem for path in configs_dir().glob("*.toml"))


def find_config(text: str) -> Path | None:
    """The config that `text` names: a path that ends in .toml, or one that comes with spgraph and is called so, unless
    a file or folder of that name is there. None where it names none.

    Raises InputError where a path that ends in .toml is not a file.
    """
    if text.lower().endswith(".toml"):
        path = Path(os.path.expanduser(text))
        if not path.is_file():
            close = difflib.get_close_matches(path.stem, config_names(), n=1)
            raise InputError(
                "no such config",
                place=text,
                remedy=f"did you mean {close[0]}?" if close else "`spgraph sweep --list` names those there are",
            )
        return path
    return configs_dir() / f"{text}.toml" if text in config_names() and not os.path.lexists(text) else None


def read_config(path: Path) -> Config:
    """The config in the file `path`, all of it checked.

    Raises InputError with the line of the first thing that is wrong, and what to do about it.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place=str(path), remedy="check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error.reason}", place=str(path), remedy="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\(at line (\d+), column \d+\)", str(error))
        cause = str(error).partition(" (at ")[0]
        last = max(1, text.count("\n"))
        raise InputError(
            f"not TOML: {cause}", place=f"{path}:{match[1] if match else last}", remedy="see docs/sweep.md"
        ) from None
    return _Reading(path, places(text)).config(data)


class _Reading:
    """One config while it is read."""

    def __init__(self, path: Path, where: Places) -> None:
        self._path, self._where = path, where
        self._shipped = path.parent == configs_dir()

    def config(self, data: Mapping[str, Any]) -> Config:
        for key in data:
            if key not in ("about", "defaults", "run"):
                raise self._error(
                    f"{key!r} is not a key of a config", self._where.line("", 0, key), _nearest(key, _TOP)
                )
        about, runs, defaults = data.get("about"), data.get("run"), data.get("defaults", {})
        if not isinstance(about, str) or not about.strip():
            line = self._where.line("", 0, "about")
            raise self._error("a config says what it is about", line, 'write: about = "one line"')
        if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
            raise self._error("a config has at least one run", self._where.line("", 0, "run"), "add a table [[run]]")
        if not isinstance(defaults, dict):
            raise self._error("defaults is a table", self._where.line("", 0, "defaults"), "write [defaults]")
        entries: list[Entry] = []
        for number, run in enumerate(runs):
            entries += self._entries(number, defaults, run)
        return Config(self._path.stem, about, self._path, tuple(entries))

    def _entries(self, number: int, defaults: Mapping[str, Any], run: Mapping[str, Any]) -> list[Entry]:
        given = {_plain(key): value for key, value in {**defaults, **run}.items()}
        spelled = {_plain(key): key for key in (*defaults, *run)}

        def fail(cause: str, key: str | None, value: object, remedy: str) -> InputError:
            name = spelled.get(key or "", key)
            line = self._where.line("run", number, name, value)
            if line is None and key is not None and name in defaults:
                line = self._where.line("defaults", 0, name, value)
            return self._error(cause, line or self._where.line("run", number), remedy)

        base = None if self._shipped else self._path.parent
        place = f"{self._path}:{self._where.line('run', number) or 1}"
        return [replace(entry, place=place) for entry in entries_of(given, base, fail)]

    def _error(self, cause: str, line: int | None, remedy: str) -> InputError:
        return InputError(cause, place=f"{self._path}:{line or 1}", remedy=remedy)


_TOP = ("about", "defaults", "run")


def _plain(key: str) -> str:
    return key.replace("-", "_")


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=2, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"keys are {', '.join(known)}"


def entries_of(given: Mapping[str, Any], base: Path | None, fail: Fail) -> list[Entry]:
    """The entries that the keys of one run mean, an entry for each problem and each combination of its options.

    `fail` makes the error of (cause, key, value, remedy), which is then raised.
    """
    names = _texts(given, "problem", fail)
    if not names:
        raise fail("a run names its problem", None, None, f"add problem = one of {', '.join(sorted(problems()))}")
    for name in names:
        if name not in problems():
            raise fail(f"there is no problem {name!r}", "problem", name, _nearest(name, sorted(problems())))
    own = {option for name in names for option in get_problem(name).options}
    known = [*_OWN, *_RUN, *_READ, *sorted(own)]
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=2, cutoff=0.6)
            remedy = f"did you mean {' or '.join(close)}?" if close else "docs/sweep.md lists the keys of a run"
            raise fail(f"{key!r} is not a key of a run of {', '.join(names)}", key, None, remedy)
    values = {key: _checked(key, _RUN[key], given[key], fail) for key in _RUN if key in given and key != "reorder"}
    orders = tuple(dict.fromkeys(_checked("reorder", _RUN["reorder"], o, fail) for o in _texts(given, "reorder", fail)))
    read = _reading(given, values.get("seed", 1), fail)
    offsets = values.pop("offsets", "auto")
    entries: list[Entry] = []
    for name in names:
        problem = get_problem(name)
        inputs = _inputs(given, name, replace(read, parallel=problem.parallel), base, fail)
        if orders not in ((), ("none",)) and not problem.axes:
            raise fail(f"the matrix of {name} is not reordered", "reorder", None, "omit reorder")
        common = {
            "inputs": inputs,
            "variants": _variants(given, name, fail),
            "dtypes": _dtypes(given, name, fail),
            "params": _params(given, fail),
            "reorder": orders or ("none",),
            "offsets": None if offsets == "auto" else offsets,
            **values,
        }
        entries += [Entry(name, options=options, **common) for options in _combinations(given, name, fail)]
    _check_params(given, names, fail)
    return entries


def _texts(given: Mapping[str, Any], key: str, fail: Fail) -> tuple[str, ...]:
    """One text or several."""
    value = given.get(key, ())
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else None
    if texts is None or not all(isinstance(each, str) for each in texts):
        raise fail(f"{key} is a text or a list of texts", key, None, f'write: {key} = "..." or ["...", "..."]')
    return tuple(texts)


def _checked(key: str, parameter: Parameter, value: Any, fail: Fail) -> Any:
    if parameter.choices == _SWITCH:
        if not isinstance(value, bool):
            raise fail(f"{key} cannot be {value!r}", key, value, f"write: {key} = true or false")
        return value
    try:
        return parameter.checked(key, value)
    except UsageError as error:
        raise fail(error.cause, key, value, error.remedy or "") from None


def _reading(given: Mapping[str, Any], seed: int, fail: Fail) -> ReadOptions:
    options = {key: _checked(key, parameter, given[key], fail) for key, parameter in _READ.items() if key in given}
    named = options.get("input_format")
    if named is not None and named not in readers():
        raise fail(f"there is no input format {named!r}", "input_format", named, _nearest(str(named), list(readers())))
    return ReadOptions(**options, seed=seed)


def _inputs(given: Mapping[str, Any], name: str, read: ReadOptions, base: Path | None, fail: Fail) -> tuple[Input, ...]:
    texts = _texts(given, "matrix", fail)
    if not get_problem(name).needs_matrix:
        if texts and all(not get_problem(p).needs_matrix for p in _texts(given, "problem", fail)):
            raise fail(f"{name} makes its own inputs and takes no matrix", "matrix", None, "omit matrix")
        return (Input("options", ""),)
    if not texts:
        raise fail(f"{name} needs a matrix", "problem", name, 'add: matrix = ["FILE", "RECIPE"]')
    inputs: list[Input] = []
    for text in texts:
        try:
            inputs += find_inputs(text, read, base)
        except InputError as error:
            cause = f"{error.place}: {error.cause}" if error.place else error.cause
            raise fail(cause, "matrix", text, error.remedy or "") from None
    return tuple(dict.fromkeys(inputs))


def _variants(given: Mapping[str, Any], name: str, fail: Fail) -> tuple[str, ...]:
    """Names of the variants of `name` that match. A glob has to match one of some problem of the run, and a problem
    needs a variant that matches."""
    problems_of_run = _texts(given, "problem", fail)
    names, formats = _texts(given, "variant", fail), _texts(given, "format", fail)
    for key, globs in (("variant", names), ("format", formats)):
        for glob in globs:
            chosen = ([glob], ()) if key == "variant" else ((), [glob])
            if not any(select(problem, *chosen) for problem in problems_of_run):
                try:
                    chosen_variants(name, *chosen)
                except UsageError as error:
                    raise fail(error.cause, key, glob, error.remedy or "") from None
    names_chosen = tuple(v.name for v in select(name, names, formats))
    if not names_chosen:
        what = " and ".join(filter(None, (", ".join(names), ", ".join(formats))))
        raise fail(f"no variant of {name} matches {what}", "problem", name, f"omit {name}, or add one of its variants")
    return names_chosen


def _dtypes(given: Mapping[str, Any], name: str, fail: Fail) -> tuple[str, ...]:
    """The types asked for that the problem has; its first where none was asked for."""
    offered, requested = get_problem(name).dtypes, _texts(given, "dtype", fail)
    everywhere = {dtype for p in _texts(given, "problem", fail) for dtype in get_problem(p).dtypes}
    for dtype in requested:
        if dtype not in everywhere:
            raise fail(f"{name} does not come in {dtype!r}", "dtype", dtype, f"one of {', '.join(sorted(everywhere))}")
    return tuple(dict.fromkeys(d for d in requested if d in offered)) or offered[:1]


def _params(given: Mapping[str, Any], fail: Fail) -> dict[str, str]:
    value = given.get("param", {})
    if not isinstance(value, Mapping) or not all(isinstance(v, str | int | float) for v in value.values()):
        raise fail("param is a table of names and values", "param", None, "write: param = { block = 128 }")
    return {str(name): str(each) for name, each in value.items()}


def _check_params(given: Mapping[str, Any], names: Sequence[str], fail: Fail) -> None:
    """Each parameter is one of some variant that runs, and has a value that it can have."""
    params = _params(given, fail)
    chosen = [v for name in names for v in select(name, _texts(given, "variant", fail))] if params else []
    try:
        check_params(chosen, params)
    except UsageError as error:
        raise fail(error.cause, "param", None, error.remedy or "") from None


def _combinations(given: Mapping[str, Any], name: str, fail: Fail) -> Iterator[dict[str, Any]]:
    """The problem's own options: of those that are lists, every combination."""
    problem = get_problem(name)
    lists: dict[str, list[Any]] = {}
    for key, parameter in problem.options.items():
        if key not in given:
            continue
        values = given[key] if isinstance(given[key], list | tuple) else [given[key]]
        if not values:
            raise fail(f"{key} has no value", key, None, "write one, or omit it")
        switch = parameter.choices == ("no", "yes")
        words = [("yes" if v else "no") if switch and isinstance(v, bool) else v for v in values]
        lists[key] = [str(v) if parameter.vertex else _checked(key, parameter, v, fail) for v in words]
    if "source" in lists and ("sources" in lists or "component" in lists):
        raise fail("source names the vertex to start from", "source", None, "omit sources and component")
    for combined in itertools.product(*lists.values()):
        options = dict(zip(lists, combined, strict=True))
        try:
            problem.configured(options)
        except SpgraphError as error:
            raise fail(error.cause, next(iter(options), None), None, error.remedy or "") from None
        yield options


def narrowed(
    entries: Sequence[Entry],
    problems: Sequence[str] = (),
    names: Sequence[str] = (),
    formats: Sequence[str] = (),
    dtypes: Sequence[str] = (),
) -> list[Entry]:
    """Those of `entries`, and of their variants and types, that match; an empty choice leaves all.

    Raises UsageError where nothing is left.
    """
    left = []
    for entry in entries:
        if problems and entry.problem not in problems:
            continue
        matching = {v.name for v in select(entry.problem, names, formats)}
        variants = tuple(name for name in entry.variants if name in matching)
        types = tuple(dtype for dtype in entry.dtypes if not dtypes or dtype in dtypes)
        if variants and types:
            left.append(replace(entry, variants=variants, dtypes=types))
    if not left:
        there = ", ".join(sorted({entry.problem for entry in entries}))
        raise UsageError("these options leave nothing of the config", remedy=f"it has {there}; omit one of the options")
    return left


def digested(entries: Sequence[Entry], unreadable: Callable[[Input, InputError], None]) -> list[Entry]:
    """The entries, files among their inputs with their digests; `unreadable` hears of files that cannot be read."""
    flat = iter(with_digests([given for entry in entries for given in entry.inputs], unreadable))
    return [replace(entry, inputs=tuple(itertools.islice(flat, len(entry.inputs)))) for entry in entries]


def name_of(entries: Sequence[Entry]) -> str:
    """What the file of a sweep without a config is called: the same for the same command line."""
    settings = [
        [e.problem, [i.text for i in e.inputs], list(e.variants), list(e.dtypes), dict(e.options), dict(e.params)]
        for e in entries
    ]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode("utf-8", "replace")).hexdigest()
    return f"{'-'.join(dict.fromkeys(e.problem for e in entries))}-{digest[:8]}"
