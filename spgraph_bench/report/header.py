"""The lines above a table: matrix, how it was read, device, libraries, ceiling, limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spgraph_bench.report.text import significant
from spgraph_bench.results.record import Ceiling, Record
from spgraph_bench.units import human_bytes, quantity

__all__ = ["ceiling_lines", "header_lines", "limits_text"]

Line = tuple[str, str]
"""A label and its text."""


def header_lines(first: Record, *, generated: bool) -> list[Line]:
    """On the matrix, how it was read, the device and the libraries of a run, of which `first` is a record.

    `generated`: there is no matrix, the inputs were made from options.
    """
    m, d = first.matrix, first.device
    digest = f"sha256 {str(m.get('sha256', ''))[:12]}"
    source = m.get("source")
    if generated and isinstance(source, Mapping):
        lines = [("inputs", f"{source.get('text', '')}, {digest}")]
    else:
        shape = f"{m.get('rows', 0):,} x {m.get('cols', 0):,}, {quantity(m.get('nnz', 0), 'nonzero')}"
        kind = "" if m.get("weighted", True) else ", pattern"
        lines = [("matrix", f"{shape}, {m.get('symmetry', 'general')}{kind}, {digest}")]
    if isinstance(source, Mapping) and not generated:
        steps = [str(s) for s in m.get("said", ())]
        lines.append(("read", "; ".join([f"{source.get('text', '')} ({source.get('format', '')})", *steps])))
    lines += [_finding(f) for f in m.get("findings", ())]
    versions = [
        f"{word}{d[key]}"
        for key, word in (("driver", "driver "), ("toolkit", "" if d.get("kind") == "host" else "CUDA "))
        if d.get(key)
    ]
    about = ", ".join(filter(None, (str(d.get("arch", "")), *versions)))
    lines.append(("device", f"{d.get('name', '?')} ({about})" if about else str(d.get("name", "?"))))
    if d.get("kind") == "host":
        imposed = (d.get("extra") or {}).get("limits")
        limits = f", with the limits of {imposed}" if imposed else ""
        lines.append(("", f"kernels are emulated here{limits}: results checked, events counted, no times"))
    versions_of = first.environment.get("libraries") or {}
    if versions_of:
        lines.append(("libraries", ", ".join(f"{name} {text}" for name, text in versions_of.items())))
    return lines


def ceiling_lines(ceiling: Ceiling) -> list[Line]:
    """What memory bandwidth and an empty kernel were measured to be in the run."""
    lines = [
        (
            "ceiling",
            f"{ceiling.gbs:,.0f} GB/s measured (read {ceiling.read_gbs:,.0f}, copy"
            f" {ceiling.copy_gbs:,.0f}, over {human_bytes(ceiling.bytes)}); empty kernel"
            f" {significant(ceiling.floor_ms * 1e3)} us",
        )
    ]
    if ceiling.zero_ms is not None:
        own = f"{significant(ceiling.zero_ms * 1e3)} us"
        lines.append(("clock", f"empty-measurement time {own}, included in each time"))
    return lines


def limits_text(limits: Mapping[str, int]) -> str:
    """The limits that were set before the first launch, in words; "" where there are none."""
    texts = []
    if "pending_launches" in limits:
        texts.append(f"pool of {limits['pending_launches']:,} waiting launches")
    if "malloc_heap_bytes" in limits:
        texts.append(f"heap of {human_bytes(limits['malloc_heap_bytes'])} on the device")
    return ", ".join(texts)


def _finding(finding: Any) -> tuple[str, str]:
    """The label and the text of a finding of the reader."""
    if not isinstance(finding, Mapping):
        return "note", str(finding)
    where = f"line {finding['line']:,}: " if finding.get("line") else ""
    count = finding.get("count", 1)
    text = f"{where}{finding.get('text', '')}" + (f" ({count:,} times)" if count > 1 else "")
    return "warning" if finding.get("warning") else "note", text
