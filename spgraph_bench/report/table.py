"""The table of one run: ranked rows, what preparing cost, what did not make it and why, what is not known.

At most 100 columns wide. Text that does not go to a terminal is plain: no colours, no line drawing, ASCII
but for names that came from outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from spgraph_bench.report.header import ceiling_lines, header_lines, limits_text
from spgraph_bench.report.marks import legend_of, marks_of, precision_text, rank_text
from spgraph_bench.report.text import Column, clean, fit, milliseconds, percent, significant, times, unique
from spgraph_bench.report.verdict import Timed, child_verdict
from spgraph_bench.results.record import Record
from spgraph_bench.results.statistics import Row, compare
from spgraph_bench.units import human_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["WIDEST", "Group"]

WIDEST = 100
_STATE_STYLE = {"wrong": "bold red", "failed": "red", "skipped": "dim"}
_COUNTERS = (
    ("global_atomics", "global atomics"),
    ("shared_atomics", "shared atomics"),
    ("barriers", "barriers"),
    ("kernel_launches", "launches"),
    ("child_launches", "child launches"),
)


class Group:
    """One table."""

    def __init__(self, records: Sequence[Record], width: int, terminal: bool, cache: Literal["cold", "hot"]) -> None:
        self.rows = compare(records, cache)
        self.first = records[0]
        self.width, self.terminal, self.cache = width, terminal, cache
        seen = [(r.variant, r.format, r.reorder) for r in records]
        self.twins = {key for key in seen if seen.count(key) > 1}
        self.timed = [r for r in self.rows if r.record.status == "ok" and r.main is not None]
        self.untimed = [r for r in self.rows if r.record.status == "ok" and r.main is None]
        self.lost = [r for r in self.rows if r.record.status != "ok"]
        self.dropped: list[str] = []
        source = self.first.matrix.get("source")
        self.generated = isinstance(source, Mapping) and source.get("kind") == "options"
        """There is no matrix: the inputs were made from options."""
        # Notes of every row are about the run and are in the head; the others name their row below.
        self.common = [n for n in unique(self.first.notes) if all(n in r.notes for r in records)]

    def parts(self, with_head: bool) -> list[RenderableType]:
        """The printable parts of the table, in order; `with_head`: with the header on matrix and device."""
        out: list[RenderableType] = self._head() if with_head else []
        first = self.first
        texts = [first.dtype, *self._options(), f"{first.offsets} offsets", f"seed {first.seed}"]
        if self.generated:
            texts.remove(f"{first.offsets} offsets")
        out.append(self._line(", ".join(texts), "bold"))
        if self.timed:
            out += ["", self._timed_table()]
        if self.untimed:
            out += ["", *self._untimed_table()]
        if made := self._preparation_table():
            out += ["", *made]
        if self.lost:
            out += ["", self._lost_table()]
        if notes := self._notes():
            out += ["", *notes]
        return out

    # -- head

    def _options(self) -> list[str]:
        return [f"{name} {value}" for name, value in self.first.given_options.items()]

    def _line(self, text: str, style: str = "") -> RenderableType:
        from rich.text import Text

        return Text(clean(text), style=style, overflow="fold")

    def _grid(self, rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> RenderableType:
        """Lines in columns; the last one wraps within itself."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2, 0, 0))
        for index in range(len(rows[0])):
            last = index == len(rows[0]) - 1
            grid.add_column(
                overflow="fold", no_wrap=index == 0, ratio=1 if last else None, max_width=None if last else 30
            )
        for index, row in enumerate(rows):
            cells = [Text(clean(cell)) for cell in row]
            if styles:
                cells[0].stylize(styles[index])
            grid.add_row(*cells)
        return grid

    def _head(self) -> list[RenderableType]:
        name = self.first.matrix.get("name", "?")
        title = self.first.problem if self.generated else f"{self.first.problem}: {name}"
        lines = header_lines(self.first, generated=self.generated)
        ceiling = next((r.record.ceiling for r in self.rows if r.record.ceiling), None)
        if ceiling is not None:
            lines += ceiling_lines(ceiling)
        if limits := limits_text(self.first.limits):
            lines.append(("limits", limits))
        lines += [("note", note) for note in self.common]
        return [self._line(title, "bold"), self._grid(lines)]

    # -- tables

    def _name(self, row: Row) -> str:
        r = row.record
        name = r.variant
        if r.library and r.library.lower() not in r.variant.lower():
            name += f" ({r.library})"
        if r.reorder != "none":
            name += f" by {r.reorder}"
        if (r.variant, r.format, r.reorder) in self.twins and r.params:
            name += " " + ",".join(f"{k}={v}" for k, v in r.params.items())
        return clean(name)

    def _fit(self, columns: Sequence[Column], styles: Sequence[str]) -> RenderableType:
        table = fit(columns, styles, self.width, self.terminal)
        self.dropped += [c.title for c in columns if c.dropped]
        return table

    def _names(self, rows: Sequence[Row], keep: int = 5) -> list[Column]:
        """The columns that say which row it is; `keep`: that of the format (see Column)."""
        return [
            Column("variant", [self._name(r) for r in rows], "left", fold=True),
            *([] if self.generated else [Column("format", [clean(r.record.format) for r in rows], "left", keep=keep)]),
        ]

    def _timed_table(self) -> RenderableType:
        rows = self.timed
        other = "hot" if self.cache == "cold" else "cold"

        def cells(of: Callable[[Row], str]) -> list[str]:
            return [of(row) for row in rows]

        def other_ms(row: Row) -> str:
            series = row.hot if other == "hot" else row.cold
            return milliseconds(series.median if series else None)

        def share(row: Row) -> str:
            return "cache" if row.cache_resident else percent(row.ceiling_share)

        # Without a matrix the rate, memory and launches say more than the ceiling and hot caches. With one
        # the format leaves first, as the second table has it too; then hot caches; then GB/s, which follow
        # from the share of the ceiling.
        made = self.generated
        columns = [
            Column("#", cells(rank_text)),
            *self._names(rows, keep=1),
            Column(f"{self.cache} ms", cells(lambda r: milliseconds(r.main.median if r.main else None))),
            Column("±" if self.terminal else "+-", cells(precision_text), keep=4 if made else 7),
            Column(f"{other} ms", cells(other_ms), keep=3),
            Column(clean(self.first.rate_unit or "rate"), cells(lambda r: significant(r.rate)), keep=8 if made else 5),
            *self._iterations(rows),
            Column("GB/s", cells(lambda r: significant(r.gbs)), keep=2 if made else 4),
            Column("ceil", cells(share), keep=2 if made else 7),
            *self._fact_columns(rows),
            Column("best", cells(lambda r: times(r.to_best.value if r.to_best else None)), keep=8),
            *self._library_columns(rows),
            Column("!", cells(marks_of), "left"),
        ]
        styles = ["bold green" if r.rank == 1 else "" for r in rows]
        return self._fit(columns, styles)

    def _library_columns(self, rows: Sequence[Row]) -> list[Column]:
        """The time over that of the best row of a GPU library, if one ran, and how well that is known."""
        library = next((r.record.library for r in rows if _gpu_library(r) and r.rank is not None), None)
        if library is None:
            return []
        ratios = [r.to_library for r in rows]
        reach = [max(r.high - r.value, r.value - r.low) / r.value if r else None for r in ratios]
        return [
            Column(clean(library), [f"{significant(r.value)}x" if r else "-" for r in ratios], keep=8),
            Column("±" if self.terminal else "+-", [percent(share) for share in reach], keep=7),
        ]

    def _iterations(self, rows: Sequence[Row]) -> list[Column]:
        """Of problems that iterate: how often, and the time of one."""
        counts = [r.record.result.get("iterations") for r in rows]
        if not any(counts):
            return []
        each = [
            r.main.median / n if r.main and r.main.median and n else None for r, n in zip(rows, counts, strict=True)
        ]
        return [
            Column("iterations", [f"{n:,}" if n else "-" for n in counts], keep=6),
            Column("ms each", [milliseconds(ms) for ms in each], keep=7),
        ]

    def _fact_columns(self, rows: Sequence[Row]) -> list[Column]:
        """What the problem says of each output, and what was launched on the device and refused there."""

        def shown(value: Any) -> str:
            if isinstance(value, float):
                return significant(value)
            return f"{value:,}" if isinstance(value, int) else clean("-" if value is None else value)

        names = unique(name for r in rows for name in r.record.facts)
        columns = [Column(clean(n), [shown(r.record.facts.get(n)) for r in rows], keep=6) for n in names]
        if any(r.record.children for r in rows):
            children = [r.record.children for r in rows]
            columns += [
                Column("children", [shown(c["launched"] if c else None) for c in children], keep=6),
                # Of those that are timed none may be lost; the reason of the others has the figures.
                Column("lost", [shown(c["refused"] + c.get("failed", 0) if c else None) for c in children], keep=5),
            ]
        if self.generated:
            memory = [human_bytes(r.record.bytes.get("device") or None) for r in rows]
            columns.append(Column("memory", memory, keep=7))
        return columns

    def _untimed_table(self) -> list[RenderableType]:
        rows = self.untimed
        emulated = self.first.device.get("kind") == "host"
        title = "emulated, checked, not timed (events of one run)" if emulated else "checked, not timed"

        def counts(key: str) -> list[str]:
            return [f"{r.record.counters[key]:,}" if key in (r.record.counters or {}) else "-" for r in rows]  # type: ignore[index]

        # Most kernels launch none, and a column of zeros would push another one out.
        children = any((r.record.counters or {}).get("child_launches") for r in rows)
        shown = [c for c in _COUNTERS if children or c[0] != "child_launches"]
        columns = [
            *self._names(rows),
            Column("check", [_check(r.record) for r in rows], "left", keep=8),
            *self._iterations(rows)[:1],
            *self._fact_columns(rows),
            *(Column(title, counts(key), keep=5 - i) for i, (key, title) in enumerate(shown)),
            Column("!", [self.marks(r) for r in rows], "left"),
        ]
        return [self._line(title, "bold"), self._fit(columns, [""] * len(rows))]

    def _preparation_table(self) -> list[RenderableType]:
        rows = [r for r in self.timed + self.untimed if r.record.where == "gpu"]
        if not rows:
            return []

        def ms(key: str) -> list[str]:
            return [significant(r.record.times.get(key) or None) for r in rows]

        def per_nonzero(row: Row) -> str:
            nnz, stored = row.record.matrix.get("nnz", 0), row.record.bytes.get("stored")
            return significant(stored / nnz) if nnz and stored is not None else "-"

        if self.generated and not any(r.record.times.get("preprocess_ms") for r in rows):
            return []  # nothing was converted
        reordered = any(r.record.reorder != "none" for r in rows)
        columns = [
            *self._names(rows),
            *([Column("reorder ms", ms("reorder_ms"), keep=7)] if reordered else []),
            Column("convert ms", ms("convert_ms"), keep=8),
            Column("upload ms", ms("upload_ms"), keep=5),
            Column("preprocess ms", ms("preprocess_ms"), keep=6),
            Column("compile ms", ms("matrix_compile_ms"), keep=7),
            Column("setup ms", [significant(r.setup_ms or None) for r in rows], keep=8),
            Column("stored", [human_bytes(r.record.bytes.get("stored")) for r in rows], keep=4),
            Column("B/nnz", [per_nonzero(r) for r in rows], keep=3),
            Column("pays after", [_pays(r.pays_after) for r in rows], keep=8),
        ]
        return [self._line("setup, once for each matrix", "bold"), self._fit(columns, [""] * len(rows))]

    def _lost_table(self) -> RenderableType:
        """Rows without a time and why; those skipped for the same reason together."""
        by_reason: dict[Any, tuple[str, list[str], str]] = {}
        for r in self.lost:
            status, reason = r.record.status, r.record.reason or "no reason was recorded"
            key = reason if status == "skipped" else id(r)
            by_reason.setdefault(key, (status, [], reason))[1].append(self._name(r))
        rows = [(status, ", ".join(names), reason) for status, names, reason in by_reason.values()]
        return self._grid(rows, [_STATE_STYLE[status] for status, _, _ in rows])

    # -- what the table says of itself

    def _notes(self) -> list[RenderableType]:
        solved = next((r.record for r in self.timed + self.untimed if r.record.result), None)
        lines = [str(s) for s in solved.result.get("said", ())] if solved else []
        lines += [self._verdict(), *self._legend()]
        others = unique(n for r in self.rows for n in r.record.notes if n not in self.common)
        lines += [f"{', '.join(self._name(r) for r in self.rows if n in r.record.notes)}: {n}" for n in others]
        if self.dropped:
            lines.append(f"hidden columns (--json has all): {', '.join(unique(self.dropped))}")
        if any(r.record.for_matrix for r in self.timed + self.untimed):
            lines.append(
                "m  compiled for this matrix only: compiling is part of setup, even if the kernel came from the cache"
            )
        orders = unique(r.record.reorder for r in self.rows if r.record.reorder != "none")
        if orders:
            lines.append(
                f"by {', '.join(orders)}: rows and columns reordered before packing; x and y are in the new "
                "order too, and permuting them is not timed"
            )
        read = next((n for r in self.timed if (n := r.record.bytes.get("gathered"))), None)
        if read is not None:
            lines.append(f"gathered: {human_bytes(read)} of x read in each run if nothing is cached; not in GB/s")
        if any(r.pays_after is not None for r in self.timed):
            both = orders and any(r.record.reorder == "none" for r in self.timed)
            lines.append(
                "pays after: runs until setup is paid back against the best CSR row"
                + (" in the matrix's own order" if both else "")
            )
        if self.timed:
            lines.append("Intervals cover this run only: another run, driver or input can differ by more.")
        lines.append(self._child_verdict())
        return [self._line(text) for text in lines if text]

    def _legend(self) -> list[str]:
        """What the signs in the table mean."""
        return legend_of(self.timed)

    @staticmethod
    def marks(row: Row) -> str:
        """The signs of a row; the legend tells those that occur."""
        return marks_of(row)

    def _child_verdict(self) -> str:
        """Whether child launches pay here, if there were any."""
        return child_verdict(
            [
                Timed(
                    self._name(r),
                    r.record,
                    r.main.median,
                    *((r.main.interval.low, r.main.interval.high) if r.main.interval else ()),
                )
                for r in self.timed
                if r.main is not None
            ]
        )

    def _verdict(self) -> str:
        """Our best kernel against the best routine of a library (of one on the GPU, if there is any)."""
        ranked = [r for r in self.timed if r.rank is not None]
        ours = next((r for r in ranked if not r.record.library), None)
        libraries = [r for r in ranked if r.record.library]
        theirs = next((r for r in libraries if _gpu_library(r)), next(iter(libraries), None))
        if ours is None or theirs is None or ours.to_library is None:
            return ""
        against, r = f"{self._name(ours)} against {self._name(theirs)}", ours.to_library
        if r.high < 1:
            return f"{against}: {times(1 / r.value)} faster ({times(1 / r.high)} to {times(1 / r.low)})"
        if r.low > 1:
            return f"{against}: {times(r.value)} slower ({times(r.low)} to {times(r.high)})"
        return f"{against}: no measurable difference"


def _gpu_library(row: Row) -> bool:
    return bool(row.record.library) and row.record.where == "gpu"


def _check(record: Record) -> str:
    return "ok" if record.check.get("ok") else "-"


def _pays(runs: float | None) -> str:
    if runs is None:
        return "-"
    if math.isinf(runs):
        return "never"
    return "0 runs" if runs == 0 else (f"{runs:,.0f}" if runs < 1e9 else f"{runs:.1e}")
