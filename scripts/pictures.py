"""Draw the pictures of docs/pictures, from the records of results/h200 and from the answers of small inputs.

    pictures.py            write them
    pictures.py --check    exit status 1 where a drawing changed since its picture was written

The same drawing gives the same data everywhere, but another version of matplotlib gives other bytes. ``--check``
therefore compares a hash of the data, which each picture has in its description.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from spgraph_bench.cli.plotting import level_drawing
from spgraph_bench.problems import get_problem
from spgraph_bench.report.drawing import Bars, Drawing, Panel, curves, points_and_boxes, roofline, times
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import read_records
from spgraph_bench.runner.assembly import generated_matrix

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
RESULTS = ROOT / "results" / "h200"
MARK = "spgraph-data:"


def _records(stem: str) -> list[Record]:
    return list(read_records(RESULTS / f"{stem}.jsonl"))


def _map(problem: str, most: int, title: str, **options: object) -> Drawing:
    of = get_problem(problem, options)
    matrix, dtype = generated_matrix(of, options), np.dtype(of.dtypes[0])
    inputs = of.inputs(matrix, dtype, 1, **options)
    shapes = of.map(inputs, of.oracle(matrix, inputs, dtype, **options), most)
    if "count" in shapes:
        panel = curves(shapes["points"], shapes["count"], title)
    else:
        panel = points_and_boxes(shapes.get("points"), shapes["corner"], shapes["side"], title)
    return Drawing(f"spgraph bench {problem}", (panel,))


def _bezier() -> Drawing:
    return _map("bezier", 36, "curves and the points that their curvature asks for", curves=20)


def _quadtree() -> Drawing:
    return _map("quadtree", 600, "700 points in clusters, and the leaves of at most 32", points=700)


def _refine() -> Drawing:
    return _map("refine", 500, "cells split where the field of two fronts is steep", fronts=2, depth=6)


def _bfs() -> Drawing:
    drawing = level_drawing(_records("bfs-rmat20-trace"))
    assert drawing is not None
    return drawing


def _spmv() -> Drawing:
    both = [r for r in _records("spmv-rmat18") + _records("spmv-poisson2d-300") if r.dtype == "float32"]
    panels: list[Panel] = [*times(both)]
    roof = roofline(both)
    return Drawing("spgraph bench spmv, NVIDIA H200", tuple([*panels, roof] if roof else panels))


def _readme() -> Drawing:
    records = [r for r in _records("spmv-uniform-4M-16") if r.dtype == "float32"]
    title = "spgraph bench spmv uniform:n=4M,degree=16, NVIDIA H200"
    return Drawing(title, tuple(times(records)[:1]))


PICTURES: dict[str, Callable[[], Drawing]] = {
    "bezier": _bezier,
    "quadtree": _quadtree,
    "refine": _refine,
    "bfs-levels": _bfs,
    "spmv": _spmv,
    "readme": _readme,
}


def data_hash(drawing: Drawing) -> str:
    """Of all that is drawn, to six digits."""
    digest = hashlib.sha256()
    for panel in drawing.panels:
        digest.update(f"{panel.title}|{panel.x}|{panel.y}|{panel.log_x}{panel.log_y}{panel.equal}".encode())
        for part in panel.parts:
            arrays = (part.values, part.low, part.high) if isinstance(part, Bars) else (part.x, part.y)
            digest.update(" ".join(f"{v:.6g}" for a in arrays if a is not None for v in a).encode())
            digest.update(repr(getattr(part, "names", part.label)).encode())
    return digest.hexdigest()[:16]


def stale() -> list[str]:
    """The pictures that are missing, or whose drawing changed since."""
    names = []
    for name, make in PICTURES.items():
        path = FOLDER / f"{name}.svg"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        recorded = re.search(f"{MARK} ([0-9a-f]+)", text)
        if recorded is None or recorded[1] != data_hash(make()):
            names.append(name)
    return names


def _smaller(svg: str) -> str:
    """`svg` in fewer bytes: hundredths of a point do, and the style of marks is that of their group."""
    text = re.sub(r"(\d\.\d\d)\d{2,}", r"\1", svg)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", text)
    text = re.sub(r'<g id="[^"]*"', "<g", re.sub(r"\n\s+", "\n", text))

    def group(match: re.Match[str]) -> str:
        styles = set(re.findall(r' style="([^"]*)"', match[2]))
        if len(styles) != 1:
            return match[0]
        marks = re.sub(r' style="[^"]*"', "", match[2])
        return f'<g{match[1]} style="{styles.pop()}">{marks}</g>'

    return re.sub(r"<g([^>]*)>((?:\s*<use [^>]*/>)+\s*)</g>", group, text)


def _write(name: str, drawing: Drawing) -> None:
    import io

    from spgraph_bench.report.picture import save_drawing

    made = io.BytesIO()
    save_drawing(made, drawing, "svg")
    text = _smaller(made.getvalue().decode())
    comment = f"<!-- {MARK} {data_hash(drawing)} -->\n"
    head, mark, rest = text.partition("<svg")
    lines = (line.rstrip() for line in (head + comment + mark + rest).splitlines())
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Draw the pictures of the pages, or with --check name stale ones. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    if parser.parse_args().check:
        for name in (changed := stale()):
            print(f"docs/pictures/{name}.svg is stale: run scripts/pictures.py")
        return 1 if changed else 0
    for name, make in PICTURES.items():
        _write(name, make())
        print(f"docs/pictures/{name}.svg  {(FOLDER / f'{name}.svg').stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
