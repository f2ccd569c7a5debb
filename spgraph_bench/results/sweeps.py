"""Tables that differ in one number alone: a parameter of a recipe, or an option of a problem, that was swept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spgraph_bench.results.record import Record

__all__ = ["FEWEST", "Sweep", "sweeps"]

FEWEST = 3
"""Values that make a curve."""

Table = Sequence[Record]


@dataclass(frozen=True)
class Sweep:
    """Tables along one parameter."""

    title: str
    """What they share: "spmv, rmat, float32, NVIDIA H200"."""
    parameter: str
    tables: Mapping[float, Table]
    """Value -> the table measured with it, rising; the last one where there are several."""


def _number(text: object) -> float | None:
    try:
        return None if isinstance(text, bool) else float(str(text))
    except ValueError:
        return None


def _settings(record: Record) -> dict[str, str]:
    """The parameters of the recipe ("recipe n") and the options of the problem ("k"); {} for files."""
    source = record.matrix.get("source") or {}
    settings = {str(name): str(value) for name, value in record.options.items()}
    if source.get("kind") == "options":
        return settings
    if source.get("kind") != "recipe":
        return {}
    name, _, parameters = str(source.get("text", "")).partition(":")
    pairs = (part.partition("=") for part in parameters.split(",") if "=" in part)
    return {"recipe": name, **settings, **{f"recipe {key}": value for key, _, value in pairs}}


def sweeps(tables: Sequence[Table]) -> list[Sweep]:
    """The sweeps among `tables`: at least :data:`FEWEST` values of one parameter, everything else being equal."""
    groups: dict[tuple[object, ...], dict[float, Table]] = {}
    for table in tables:
        first = table[0]
        settings = _settings(first)
        for name, text in settings.items():
            value = _number(text)
            if value is None or name == "check_seconds":
                continue
            others = tuple(sorted((k, v) for k, v in settings.items() if k not in (name, "check_seconds")))
            shared = (first.problem, settings.get("recipe", ""), first.dtype, str(first.device.get("name", "?")))
            groups.setdefault((*shared, name, others), {})[value] = table
    return [
        Sweep(", ".join(filter(None, map(str, key[:4]))), str(key[4]).removeprefix("recipe "), dict(sorted(by.items())))
        for key, by in groups.items()
        if len(by) >= FEWEST
    ]
