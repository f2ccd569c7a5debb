"""Parameters found by tuning, kept in the cache folder by problem, matrix hash and device."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.paths import cache_dir, trusted

__all__ = ["any_tuned", "load_tuned", "save_tuned", "tuned_path"]

Tuned = dict[str, dict[str, Any]]


def tuned_path(problem: str, sha256: str, info: DeviceInfo) -> Path:
    """The file for one matrix on one device (its UUID; the host device has none and goes by its name)."""
    device = re.sub(r"[^A-Za-z0-9]+", "-", info.uuid or f"{info.kind}-{info.name}")
    return cache_dir("tuned") / f"{problem}-{sha256[:32]}-{device}.json"


def any_tuned(problem: str) -> bool:
    """Whether some matrix was tuned for `problem`: else no matrix's hash, which takes time, is needed."""
    return any(cache_dir("tuned").glob(f"{problem}-*.json"))


def load_tuned(problem: str, sha256: str, info: DeviceInfo) -> Tuned:
    """Parameters by variant; empty where nothing was tuned, or the file cannot be read.

    Raises CacheError where the file belongs to another user, or others may write to it.
    """
    try:
        path = tuned_path(problem, sha256, info)
        tuned = json.loads(path.read_text(encoding="utf-8")) if trusted(path) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(tuned, dict):
        return {}
    return {str(name): dict(params) for name, params in tuned.items() if isinstance(params, dict)}


def save_tuned(problem: str, sha256: str, info: DeviceInfo, variant: str, params: Mapping[str, Any]) -> Path:
    """Keep `params` for `variant` and return the file, which appears by one rename."""
    path = tuned_path(problem, sha256, info)
    tuned = {**load_tuned(problem, sha256, info), variant: dict(params)}
    part = path.with_suffix(f".{os.getpid()}.part")
    part.touch(0o600)
    part.write_text(json.dumps(tuned, indent=1), encoding="utf-8")
    part.replace(path)
    return path
