"""-D for kernels, from tunables that are not at their default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spgraph_bench.parameters import Parameter

__all__ = ["changed", "differing"]


def changed(params: Mapping[str, Any], tunables: Mapping[str, Parameter], **names: str) -> dict[str, str]:
    """-D for the tunables in `names` (macro=tunable) that are not at their default.

    The default is written in the kernel too: an unchanged tunable needs no separate module.
    """
    return {m: str(params[t]) for m, t in names.items() if params[t] != tunables[t].default}


def differing(defaults: Mapping[str, int], **macros: int) -> dict[str, str]:
    """-D for the `macros` that differ from `defaults`, the kernel's own, for the same reason."""
    return {name: str(value) for name, value in macros.items() if value != defaults[name]}
