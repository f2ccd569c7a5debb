"""Inputs that are wrong in many ways: sound small files of every format, and what can happen to them.

`case(seed, k)` is one input, the same on every machine: every third one malformed (a token of a sound text replaced by
one that makes no sense there), the others mutated (bits, spans, lines, ends, pieces of other files).
"""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import tarfile

import numpy as np
import scipy.io as sio
import scipy.sparse as sp

__all__ = ["case", "sound_files"]

_MM = "%%MatrixMarket matrix "
_TEXTS = {
    "real.mtx": _MM + "coordinate real general\n% a comment\n4 5 5\n1 1 1.5\n2 3 -2e-3\n4 5 7\n3 3 0\n4 1 .5\n",
    "sym.mtx": _MM + "coordinate integer symmetric\n4 4 4\n1 1 5\n2 1 -7\n4 2 3\n4 4 1\n",
    "skew.mtx": _MM + "coordinate real skew-symmetric\n3 3 2\n2 1 1.0\n3 1 2.0\n",
    "complex.mtx": _MM + "coordinate complex hermitian\n3 3 2\n1 1 1 0\n2 1 1.5 -2\n",
    "pattern.mtx": _MM + "coordinate pattern general\n3 3 3\n1 2\n2 3\n3 1\n",
    "array.mtx": _MM + "array real general\n2 3\n1\n2\n3\n4\n5\n6\n",
    "banner.mtx": "3 3 2\n1 2 1.0\n3 3 2.0\n",
    "list.txt": "# Directed graph: x.txt\n# Nodes: 4 Edges: 4\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n2\t3\n3\t0\n",
    "times.txt": "1 2 1082040961\n2 3 1082040962\n1 3 1082155839\n",
    "weights.csv": "1,2,0.5\n2,3,1.5\n3,1,2.5\n",
    "out.konect": "% asym weighted\n% 3 3 3\n1 2 1\n2 3 2\n3 1 4\n",
    "out.bip": "% bip unweighted\n1 1\n1 2\n2 3\n",
    "gap.el": "0 1\n1 2\n2 0\n",
    "gap.wel": "0 1 5\n1 2 7\n2 0 9\n",
    "road.gr": "c a comment\np sp 4 4\na 1 2 5\na 2 3 6\na 3 4 7\na 4 1 8\n",
    "colour.col": "c a comment\np edge 3 2\ne 1 2\ne 2 3\n",
    "metis.graph": "% a comment\n4 4\n2 4\n1 3\n2 4\n1 3\n",
    "weighted.graph": "3 2 011\n1 2 5\n2 1 5 3 6\n1 2 6\n",
    "real.rb": "title".ljust(72) + "key".ljust(8) + "\n3 1 1 1\nrua 3 3 4 0\n(4I3)           (10I3)          (4F8.1)\n"
    "  1  3  4  5\n  1  3  2  3\n     1.0     2.0     3.0     4.0\n",
    "net.net": '*Vertices 3\n1 "a"\n2 "b"\n3 "c"\n*Arcs\n1 2 1.5\n2 3 2\n',
    "graph.gml": 'graph [\n directed 1\n node [ id 1 label "a" ]\n node [ id 2 label "b" ]\n'
    " edge [ source 1 target 2 weight 2.5 ]\n]\n",
    "graph.graphml": '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    '<graph edgedefault="directed"><node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>\n',
}
_NASTY = [
    b"",
    b"0",
    b"-1",
    b"-0",
    b"1",
    b"2",
    b"3",
    b"7",
    b"1.5",
    b"1.5.2",
    b"1e5e6",
    b"1e400",
    b"-1e400",
    b"nan",
    b"inf",
    b"-inf",
    b"2147483647",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"9" * 40,
    b"9" * 400,
    b"9" * 5000,
    b"0x10",
    b"1_000",
    b"+",
    b"-",
    b".",
    b"e5",
    b"1.5-4",
    b"4.2215-390",
    b"1d5",
    b"1,2",
    b"1;2",
    b"%",
    b"#",
    b"//",
    b"*",
    b"\0",
    b"\x1b[31m",
    b"\xff\xfe",
    "ä€".encode(),
    b'"',
    b"(",
    b")",
    b"(9999I9999)",
    b"general",
    b"symmetric",
    b"array",
    b"pattern",
    b"complex",
    b"real",
    b"sp",
    b"a",
    b"p",
    b"\r",
    b"\t",
    b"&lt;",
    b"<",
    b"[",
]


@functools.cache
def sound_files() -> dict[str, bytes]:
    """Small sound files of every format and compression, by name."""
    result = {name: text.encode() for name, text in _TEXTS.items()}
    a = sp.csr_array(np.array([[1.0, 0, -2], [0, 0, 0.5], [3, 0, 0]]))
    for form in ("csr", "csc", "coo", "bsr", "dia"):
        for packed in (False, True):
            out = io.BytesIO()
            sp.save_npz(out, a.asformat(form), compressed=packed)
            result[f"{form}{packed:d}.npz"] = out.getvalue()
    variables = {
        "A": {"A": a.tocsc()},
        "Problem": {"Problem": {"name": "x", "A": a.tocsc(), "x": 1.0}},
        "complex": {"A": 1j * a.tocsc(), "y": "text"},
        "bool": {"A": (a != 0).tocsc()},
    }
    for name, given in variables.items():
        for packed in (False, True):
            out = io.BytesIO()
            sio.savemat(out, given, do_compression=packed)
            result[f"{name}{packed:d}.mat"] = out.getvalue()
    out = io.BytesIO()
    sio.savemat(out, {"A": a.tocsc()}, format="4")
    result["four.mat"] = out.getvalue()
    for name, form in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT)):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as tar:
            for member, content in ((f"{name}/{name}.mtx", result["real.mtx"]), (f"{name}/{'b' * 120}.mtx", b"x")):
                about = tarfile.TarInfo(member)
                about.size = len(content)
                tar.addfile(about, io.BytesIO(content))
        result[f"{name}.tar"] = out.getvalue()
        result[f"{name}.tar.gz"] = gzip.compress(out.getvalue(), mtime=0)
    result["real.mtx.gz"] = gzip.compress(result["real.mtx"], mtime=0)
    result["list.txt.bz2"] = bz2.compress(result["list.txt"])
    result["road.gr.xz"] = lzma.compress(result["road.gr"])
    return result


def case(seed: int, k: int) -> tuple[str, bytes]:
    """Name and content of input `k` of `seed`."""
    draw = np.random.default_rng([seed, k])
    files = sound_files()
    names = [name for name in files if k % 3 or name in _TEXTS]
    name = names[int(draw.integers(len(names)))]
    content = _malformed(files[name], draw) if k % 3 == 0 else _mutated(files[name], draw)
    if draw.random() < 0.03:  # a name that says something else
        name = f"{name.split('.')[0]}.{str(draw.choice(names)).split('.', 1)[1]}"
    return name, content


def _malformed(content: bytes, draw: np.random.Generator) -> bytes:
    """One or two tokens replaced by others, most often in the first lines."""
    for _ in range(int(draw.integers(1, 3))):
        lines = content.split(b"\n")
        position = int(min(draw.integers(len(lines)), draw.integers(len(lines))))
        words = lines[position].split(b" ")
        words[int(draw.integers(len(words)))] = _NASTY[int(draw.integers(len(_NASTY)))]
        lines[position] = b" ".join(words)
        content = b"\n".join(lines)
    return content


def _mutated(content: bytes, draw: np.random.Generator) -> bytes:
    """One to four things that happen to files."""
    data = bytearray(content)
    for _ in range(int(draw.integers(1, 5))):
        size = len(data)
        if not size:
            break
        position, span = int(draw.integers(size)), int(draw.integers(1, 1 + min(size, 64)))
        match int(draw.integers(9)):
            case 0 | 1 | 2:
                data[position] ^= 1 << int(draw.integers(8))
            case 3:
                data[position] = int(draw.integers(256))
            case 4:
                del data[position : position + span]
            case 5:
                data[position:position] = data[position : position + span] * int(draw.integers(1, 4))
            case 6:
                data[position:position] = draw.bytes(span)
            case 7:
                del data[position:]
            case _:
                others = list(sound_files().values())
                other = others[int(draw.integers(len(others)))]
                begin = int(draw.integers(len(other)))
                data[position : position + span] = other[begin : begin + span]
    return bytes(data)
