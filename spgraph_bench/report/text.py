"""Numbers and names as tables write them, and one table maker that fits any width."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from spgraph_bench.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table

__all__ = [
    "Column",
    "clean",
    "console_class",
    "fit",
    "milliseconds",
    "percent",
    "significant",
    "times",
    "to_text",
    "unique",
]


def clean(text: object) -> str:
    """`text` with control characters (escape sequences in a file's name, say) as escapes; newlines stay."""
    return printable(str(text).replace("\t", " "))


def significant(value: float | None, digits: int = 3, most_decimals: int = 5) -> str:
    """`value` with so many significant digits, never fewer than its whole part: 0.0101, 12.3, 4,390."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf"
    if value == 0:
        return "0"
    magnitude = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding: 9.9999 counts as 10.0
    if magnitude >= 7 or magnitude < -most_decimals:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{min(most_decimals, max(0, digits - 1 - magnitude))}f}"


def milliseconds(value: float | None) -> str:
    """A time in ms with four significant digits; "-" for None."""
    return significant(value, 4)


def percent(share: float | None) -> str:
    """A share as a percentage: 0.05%, 1.9%, 27%."""
    if share is None or not math.isfinite(share):
        return "-"
    return f"{share * 100:,.{2 if share < 0.01 else 1 if share < 0.1 else 0}f}%"


def times(value: float | None) -> str:
    """A ratio: 1.00x, 13.7x, 1,234x."""
    return "-" if value is None else f"{significant(value, 3, 2)}x"


@dataclass
class Column:
    """One column with its cells. `keep`: those with the lowest go first when space is short, 9 never goes."""

    title: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "right"
    keep: int = 9
    fold: bool = False
    """Folded over several lines where space is short; the one such column of a table."""
    dropped: bool = field(default=False, init=False)

    def width(self) -> int:
        """Terminal cells that title and contents need."""
        from rich.cells import cell_len

        return max(cell_len(text) for text in (self.title, *self.cells))

    @property
    def empty(self) -> bool:
        """Whether no cell has content ("" or "-")."""
        return all(cell in ("", "-") for cell in self.cells)


_GAP = 2
_NAME = 24  # a name wider than this is folded before another column is given up


def fit(columns: Sequence[Column], styles: Sequence[str], width: int, terminal: bool) -> Table:
    """A table of `columns`, at most `width` wide: columns without content are omitted, then those that are
    least worth keeping (marked ``dropped``); the one that folds gets what is left."""
    from rich import box
    from rich.table import Table

    shown = [c for c in columns if c.fold or not c.empty]
    folded = next(c for c in shown if c.fold)
    while True:
        rest = sum(c.width() for c in shown if c is not folded) + _GAP * (len(shown) - 1)
        victim = min((c for c in shown if c.keep < 9), key=lambda c: c.keep, default=None)
        if rest + min(folded.width(), _NAME) <= width or victim is None:
            break
        victim.dropped = True
        shown.remove(victim)
    name = min(folded.width(), max(8, width - rest))
    # Only a rule below the head: of lines where they can be drawn, else of hyphens.
    plain = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
    rule = box.SIMPLE_HEAD if terminal else plain
    table = Table(box=rule, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column in shown:
        table.add_column(
            _text(column.title),
            justify=column.justify,
            overflow="fold",
            no_wrap=not column.fold,
            width=name if column.fold else None,
        )
    for row, style in enumerate(styles):
        table.add_row(*(_text(c.cells[row]) for c in shown), style=style or None)
    return table


def _text(text: str, style: str = "") -> RenderableType:
    from rich.text import Text

    return Text(text, style=style)


@functools.cache
def console_class() -> type[Console]:
    """Rich's console, but what it is given to print cannot hold control characters, and pipes may end."""
    from rich.console import Console
    from rich.segment import Segment

    class Printable(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                shown = segment.text if segment.control else printable(segment.text)
                yield segment if shown == segment.text else Segment(shown, segment.style)

        def on_broken_pipe(self) -> None:  # rich would exit with status 1
            raise BrokenPipeError

    return Printable


def to_text(parts: Sequence[RenderableType], width: int, terminal: bool) -> str:
    """`parts` one below the other as text; with colours only for a `terminal`, and not under NO_COLOR."""
    from io import StringIO

    out = StringIO()
    console = console_class()(
        file=out,
        width=width,
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        color_system="auto" if terminal else None,
    )
    for part in parts:
        console.print(part)
    return "".join(line.rstrip(" ") + "\n" for line in out.getvalue().splitlines())


def unique(items: Iterable[str]) -> list[str]:
    """`items` without repeats, in their order."""
    return list(dict.fromkeys(items))
