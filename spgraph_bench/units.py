"""Numbers with units, as messages and tables show them."""

from __future__ import annotations

__all__ = ["human_bytes", "quantity"]


def human_bytes(count: float | None) -> str:
    """Decimal units as GPU data sheets use them, three digits: 3.3 TB, 48.1 MB, 912 B; None is "-"."""
    if count is None:
        return "-"
    unit = 0
    while abs(count) >= 999.5 and unit < 5:
        count, unit = count / 1000, unit + 1
    return f"{count:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[unit]}"


def quantity(count: int, one: str, several: str = "") -> str:
    """A number of things: "1 edge", "2,500 edges"; `several` where the plural is not `one` with an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
