"""The arrays of a sparse format as a picture in a terminal: where each entry is, and what is padding.

A cell is ``column:value``, or the column alone where no values are stored; ``.`` is padding or fill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["draw_arrays", "list_arrays"]

Arrays = Mapping[str, npt.NDArray[Any]]
PAD = "."
_SLICE = 32  # rows of a slice of SELL, as spgraph_bench.formats.sell has them
_DIA_SLICE = 128


def _value(value: Any) -> str:
    return f"{float(value):.4g}"


def list_arrays(arrays: Arrays, meta: Mapping[str, Any], width: int = 100) -> list[str]:
    """Every array with its type, shape, bytes and first elements, then the scalars: a line each."""
    names = max((len(name) for name in (*arrays, *meta)), default=0)
    lines = []
    for name, array in arrays.items():
        shape = "][".join(map(str, array.shape))
        head = f"{name:<{names}}  {array.dtype}[{shape}]"
        lines.append(_cut(f"{head:<{names + 24}}  {_first(array)}", width))
    lines += [_cut(f"{name:<{names}}  {value}", width) for name, value in meta.items()]
    return lines


def _first(array: npt.NDArray[Any], most: int = 64) -> str:
    flat = array.reshape(-1)[:most]
    exact = array.dtype.kind in "iub"
    text = " ".join(str(int(x)) if exact else _value(x) for x in flat)
    return text + (" ..." if array.size > most else "")


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(0, width - 4)].rstrip() + " ..."


def _grid(rows: Sequence[tuple[str, Sequence[str]]], head: tuple[str, Sequence[str]], width: int) -> list[str]:
    """Labelled rows of cells below a head, cut on the right where they do not fit."""
    label = max(len(name) for name, _ in (head, *rows))
    count = max((len(cells) for _, cells in (head, *rows)), default=0)
    cell = max((len(c) for _, cells in (head, *rows) for c in cells), default=1)
    room = max(1, (width - label - 6) // (cell + 1))
    more = " ..." if count > room else ""

    def line(name: str, cells: Sequence[str]) -> str:
        return f"{name:>{label}}  " + " ".join(f"{c:>{cell}}" for c in cells[:room]) + more

    return [line(*row).rstrip() for row in (head, *rows)]


def _cell(col: Any, val: Any | None) -> str:
    if int(col) < 0:
        return PAD
    return str(int(col)) if val is None else f"{int(col)}:{_value(val)}"


def _entries(col: npt.NDArray[Any], val: npt.NDArray[Any] | None, places: Sequence[int]) -> list[str]:
    return [_cell(col[k], None if val is None else val[k]) for k in places]


def _segments(
    pointer: npt.NDArray[Any], col: npt.NDArray[Any], val: npt.NDArray[Any] | None, what: str, most: int, width: int
) -> list[str]:
    count = min(len(pointer) - 1, most)
    rows = [(f"{what} {i}", _entries(col, val, range(int(pointer[i]), int(pointer[i + 1])))) for i in range(count)]
    return _grid(rows, (f"{what}", ["entries"]), width)


def _csr(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    return _segments(a["row_ptr"], a["col"], a.get("val", a.get("weight")), "row", most, width)


def _csc(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    return _segments(a["col_ptr"], a["row"], a.get("val"), "column", most, width)


def _csr16(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    group = np.arange(len(a["offset"])) // 128
    col = a["base"].astype(np.int64)[group] + a["offset"]
    lines = _segments(a["row_ptr"], col, a.get("val"), "row", most, width)
    return [*lines, _cut(f"columns are base + offset; base of each 128 entries: {_first(a['base'])}", width)]


def _coo(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    names = [name for name in ("row", "col", "val") if name in a]
    return [_cut(f"{name:>3}  {_first(a[name])}", width) for name in names]


def _slots(col: npt.NDArray[Any], val: npt.NDArray[Any] | None, names: Sequence[str], width: int) -> list[str]:
    """Slot-major arrays ``[slots][rows]``, drawn with rows going down."""
    slots = col.shape[0]
    body = [
        (name, [_cell(col[k, i], None if val is None else val[k, i]) for k in range(slots)])
        for i, name in enumerate(names)
    ]
    return _grid(body, ("", [f"slot {k}" for k in range(slots)]), width)


def _ell(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    shown = min(rows, most)
    col, val = a["col"].reshape(-1, rows)[:, :shown], a.get("val")
    return _slots(
        col, None if val is None else val.reshape(-1, rows)[:, :shown], [f"row {i}" for i in range(shown)], width
    )


def _ell_rows(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    return _ell({"col": a["row_col"].T} | ({"val": a["row_val"].T} if "row_val" in a else {}), meta, rows, most, width)


def _hyb(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    part = {"col": a["ell_col"]} | ({"val": a["ell_val"]} if "ell_val" in a else {})
    lines = [f"ELL part, {a['ell_col'].shape[0]} slots a row", *_ell(part, meta, rows, most, width)]
    tail = [
        f"({int(r)},{_cell(c, None if 'coo_val' not in a else a['coo_val'][k])})"
        for k, (r, c) in enumerate(zip(a["coo_row"][:most], a["coo_col"][:most], strict=True))
    ]
    more = " ..." if len(a["coo_row"]) > most else ""
    return [*lines, _cut(f"COO tail, {len(a['coo_row'])} entries: {' '.join(tail)}{more}", width)]


def _jds(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    start, perm, val = a["slot_start"].astype(np.int64), a["perm"], a.get("val")
    widths = np.diff(start)
    body = []
    for p in range(min(rows, most)):
        places = [int(start[k]) + p for k in range(len(widths)) if p < widths[k]]
        body.append((f"row {int(perm[p])}", _entries(a["col"], val, places)))
    return ["rows by length, longest first", *_grid(body, ("", [f"slot {k}" for k in range(len(widths))]), width)]


def _sell(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    start, perm, val = a["slice_ptr"].astype(np.int64), a.get("perm"), a.get("val")
    lines: list[str] = []
    for s in range(len(start) - 1):
        first, last = s * _SLICE, min((s + 1) * _SLICE, rows, most)
        if first >= min(rows, most):
            break
        wide = int(start[s + 1] - start[s]) // _SLICE
        names = [f"row {i if perm is None else int(perm[i])}" for i in range(first, last)]
        body = [
            (name, _entries(a["col"], val, [int(start[s]) + _SLICE * k + lane for k in range(wide)]))
            for lane, name in enumerate(names)
        ]
        lines += [f"slice {s}, {wide} wide", *_grid(body, ("", [f"slot {k}" for k in range(wide)]), width)]
    return lines


def _dia(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    diag = a["diag"]
    body = []
    for i in range(min(rows, most)):
        if "mask" in a:
            bits = a["mask"].reshape(-1, len(diag))[i // 32]
            cells = ["1" if int(bits[d]) >> (i % 32) & 1 else PAD for d in range(len(diag))]
        else:
            data = a["data"].reshape(-1, len(diag), _DIA_SLICE)[i // _DIA_SLICE, :, i % _DIA_SLICE]
            cells = [_value(x) if x else PAD for x in data]
        body.append((f"row {i}", cells))
    group = int(meta.get("group") or 1)
    origin = "row" if group == 1 else f"the first of the row's group of {group}"
    head = ("", [f"{int(d):+d}" for d in diag])
    return [f"diagonals are columns counted from {origin}", *_grid(body, head, width)]


def _blocks(
    body: Iterator[tuple[str, Sequence[tuple[int, npt.NDArray[Any]]]]], block_cols: int, width: int
) -> list[str]:
    lines: list[str] = []
    for name, blocks in body:
        height = next((len(values) for _, values in blocks if len(values)), 1)
        for r in range(height):
            parts = []
            for col, values in blocks:
                cells = [PAD] * block_cols if col < 0 else [_value(x) if x else PAD for x in values[r]]
                parts.append("[" + " ".join(f"{c:>5}" for c in cells) + "]")
            label = name if r == 0 else ""
            lines.append(_cut(f"{label:>12}  {'  '.join(parts)}", width))
        columns = ", ".join("none" if col < 0 else str(col * block_cols) for col, _ in blocks)
        lines.append(_cut(f"{'':>12}  from column {columns}" if blocks else f"{name:>12}  no block", width))
    return lines


def _bsr(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    start, r, c = a["block_ptr"], int(meta["block_rows"]), int(meta["block_cols"])
    values = a["block_val"].reshape(-1, r, c)

    def body() -> Iterator[tuple[str, Sequence[tuple[int, npt.NDArray[Any]]]]]:
        for i in range(min(len(start) - 1, max(1, most // r))):
            yield (f"block row {i}", [(int(a["block_col"][k]), values[k]) for k in range(start[i], start[i + 1])])

    return _blocks(body(), c, width)


def _blocked_ell(a: Arrays, meta: Mapping[str, Any], rows: int, most: int, width: int) -> list[str]:
    side = int(meta.get("side") or a["block_val"].shape[-1])
    col = a["block_col"]
    values = a["block_val"].reshape(*col.shape, side, side)

    def body() -> Iterator[tuple[str, Sequence[tuple[int, npt.NDArray[Any]]]]]:
        for i in range(min(len(col), max(1, most // side))):
            yield f"block row {i}", [(int(col[i, k]), values[i, k]) for k in range(col.shape[1])]

    return _blocks(body(), side, width)


Draw = Callable[[Arrays, Mapping[str, Any], int, int, int], list[str]]
_BY_ARRAYS: tuple[tuple[frozenset[str], Draw], ...] = (
    (frozenset({"row_ptr", "offset", "base"}), _csr16),
    (frozenset({"row_ptr", "col_ptr"}), _csr),
    (frozenset({"row_ptr", "col"}), _csr),
    (frozenset({"col_ptr", "row"}), _csc),
    (frozenset({"ell_col", "coo_row"}), _hyb),
    (frozenset({"row_col"}), _ell_rows),
    (frozenset({"slot_start", "perm"}), _jds),
    (frozenset({"slice_ptr", "col"}), _sell),
    (frozenset({"diag", "data"}), _dia),
    (frozenset({"diag", "mask"}), _dia),
    (frozenset({"block_ptr", "block_col", "block_val"}), _bsr),
    (frozenset({"block_col", "block_val"}), _blocked_ell),
    (frozenset({"row", "col"}), _coo),
    (frozenset({"col"}), _ell),
)
"""What draws a format, by the arrays it has; the first that fits."""


def draw_arrays(arrays: Arrays, meta: Mapping[str, Any], rows: int, *, most: int = 16, width: int = 100) -> list[str]:
    """The picture of a packed matrix, its first `most` rows; no lines for a layout without one (bins).

    Parameters
    ----------
    arrays, meta : as ``Packed`` has them.
    rows : of the matrix.
    """
    for names, draw in _BY_ARRAYS:
        if names <= arrays.keys() and (draw is not _ell or arrays["col"].ndim == 2):
            lines = draw(arrays, meta, rows, most, width) if rows else ["no rows"]
            return [*lines, f"... {rows - most:,} more rows"] if rows > most else lines
    return []
