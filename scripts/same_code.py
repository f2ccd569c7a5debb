"""Which kernels a change of their sources left as they were: their machine code before and after, compared.

    same_code.py BEFORE              BEFORE: a folder with the project as it was (git worktree add, git archive)
    same_code.py BEFORE --write TEXT adds those that are the same to results/same_code.toml; TEXT: what changed

A record names the tokens of its kernels, and its numbers are marked once they differ from today's
(fill_numbers.py). Where a change moved code or renamed a macro, and nvcc makes the same of it, results/same_code.toml
says so, and the numbers stay unmarked. Needs nvcc, no GPU.

Every variant is prepared in both trees, and the kernels that its host function takes are compared pair by pair, with
the -D that each tree gives them: they are the same where the preprocessor leaves the same tokens, or else where the
cubins for sm_90 have the same code and take the same registers and shared memory.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "results" / "same_code.toml"
ARCHITECTURE = "sm_90"

Call = tuple[str, tuple[tuple[str, str], ...], str]
"""Source, -D and the name of a kernel."""


# ---- in one tree: run with its folder first on the path ---------------------------------------------------


def calls(usual: bool) -> dict[str, list[Call]]:
    """The kernels that each case (variant, matrix, types, parameters) takes, in order."""
    import kernel_modules as script

    module_type: Any
    try:
        from spgraph_bench.runner import rehearsal

        module_type = rehearsal.NotedModule
    except ImportError:  # a tree in which the script has it
        module_type = script._Module
    from spgraph_bench.errors import SpgraphError
    from spgraph_bench.problems import problems
    from spgraph_bench.variants import variants

    prepared = getattr(script, "prepared", None) or script._prepared  # as older trees call it
    taken: list[Call] = []
    take = module_type.kernel

    def noting(module: Any, name: str) -> Any:
        taken.append((module.module.source, module.module.defines, name))
        return take(module, name)

    module_type.kernel = noting
    device, taken_by_case = script.NotingDevice(), {}
    for variant in (v for p in problems() for v in variants(p) if v.source is not None):
        for matrix, options in script._cases(variant):
            for params in ({},) if usual or matrix.csr.nnz > 100_000 else script.extremes(variant):
                for types in ((dtype, offsets) for dtype in variant.dtypes for offsets in ("int32", "int64")):
                    taken.clear()
                    try:
                        prepared(device, variant, matrix, *types, options, params)
                    except SpgraphError:
                        continue
                    case = (variant.problem, variant.name, matrix.name, sorted(options.items()), sorted(params.items()))
                    taken_by_case[repr((*case, types))] = list(taken)
    return taken_by_case


def in_tree(root: Path, usual: bool) -> dict[str, Any]:
    """Of the project in `root`: its calls, and the tokens of its sources."""
    # -P: what the script imports is of that tree, not from beside the script.
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'scripts'}"}
    command = [sys.executable, "-P", __file__, "--list", *(["--usual"] if usual else [])]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{root}: {done.stderr.strip().splitlines()[-1]}")
    listed: dict[str, Any] = json.loads(done.stdout)
    return listed


# ---- comparing --------------------------------------------------------------------------------------------


def sections(cubin: bytes) -> dict[str, tuple[bytes, int, int]]:
    """Machine code, registers and bytes of shared memory of each kernel in a cubin (an ELF file of 64 bits)."""
    table = struct.unpack_from("<Q", cubin, 0x28)[0]
    count, names_at = struct.unpack_from("<HH", cubin, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + 64 * i) for i in range(count)]
    start = headers[names_at][4]

    def name(header: tuple[int, ...]) -> str:
        return cubin[start + header[0] : cubin.index(b"\0", start + header[0])].decode()

    shared = {name(h).removeprefix(".nv.shared."): h[5] for h in headers if name(h).startswith(".nv.shared.")}
    return {
        kernel: (cubin[h[4] : h[4] + h[5]], h[7] >> 24, shared.get(kernel, 0))
        for h in headers
        if name(h).startswith(".text.") and (kernel := name(h).removeprefix(".text."))
    }


@dataclass(eq=False)
class Tree:
    """The kernels of one state of the project."""

    cuda: Path
    folder: Path
    """For copies without the compilers' own headers, and for cubins."""
    _cubins: dict[str, Mapping[str, tuple[bytes, int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.cuda.rglob("*.cu*"):
            text = path.read_text(encoding="utf-8")
            bare = re.sub(r"^[ \t]*#[ \t]*include[ \t]*(<.*)$", r"included \1", text, flags=re.M)
            copy = self.folder / path.relative_to(self.cuda)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(bare, encoding="utf-8")

    @functools.cache  # noqa: B019 - there are two, until the script ends
    def preprocessed(self, source: str, defines: tuple[tuple[str, str], ...]) -> str:
        """The tokens that are left of `source` for the GPU."""
        command = ["g++", "-E", "-P", "-x", "c++", "-nostdinc", "-D__CUDACC__", f"-D__CUDA_ARCH__={ARCHITECTURE[3:]}0"]
        command += [f"-D{name}={value}" for name, value in defines]
        done = subprocess.run([*command, self.folder / source], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{self.cuda / source}: {done.stderr.strip()}")
        return " ".join(re.findall(r"\w+|[^\w\s]", done.stdout))

    @functools.cache  # noqa: B019
    def kernels(self, source: str, defines: tuple[tuple[str, str], ...]) -> Mapping[str, tuple[bytes, int, int]]:
        """What nvcc makes of it."""
        text = self.preprocessed(source, defines)
        target = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.cubin"
        if not target.exists():
            command = ["nvcc", "-O3", "-std=c++17", f"-arch={ARCHITECTURE}", "-cubin", f"-I{self.cuda}"]
            command += [f"-D{name}={value}" for name, value in defines]
            command += ["-rdc=true"] * bool(re.search(r"< < <|cudaGraphLaunch|cudaGetLastError", text))
            done = subprocess.run([*command, "-o", target, self.cuda / source], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{self.cuda / source}: {done.stderr.strip()}")
        return sections(target.read_bytes())


def same(old: Tree, new: Tree, before: Call, after: Call | None, taken: Mapping[str, set[str]]) -> bool:
    """Whether two kernels are the same, with those that only other kernels launch."""
    if after is None:
        return False
    if old.preprocessed(*before[:2]) == new.preprocessed(*after[:2]):
        return True
    a, b = old.kernels(*before[:2]), new.kernels(*after[:2])
    children = {name for name in a if name not in taken[before[0]] and name in b}
    return before[2] in a and after[2] in b and a[before[2]] == b[after[2]] and all(a[n] == b[n] for n in children)


def pairs(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[Call, Call | None]]:
    """Kernels that the same case took in both trees, in order. Where it takes more or fewer now, they are paired by
    source and name, and those that are not taken any more with None."""
    for case in before["calls"].keys() & after["calls"].keys():
        one, other = ([tuple_of(call) for call in tree["calls"][case]] for tree in (before, after))
        if len(one) == len(other):
            yield from zip(one, other, strict=True)
        else:
            now = {(source, name): (source, defines, name) for source, defines, name in other}
            yield from ((call, now.get((call[0], call[2]))) for call in one)


def tuple_of(call: Any) -> Call:
    """A call as JSON gave it."""
    source, defines, name = call
    return source, tuple((str(k), str(v)) for k, v in defines), name


def main() -> int:
    """Compare machine code before and after, or record an accepted change. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?", type=Path)
    parser.add_argument("--write", metavar="TEXT", help=f"add to {KNOWN.name}; what the change was")
    parser.add_argument("--source", default="", help="only sources that contain this")
    parser.add_argument("--usual", action="store_true", help="no extremes of tunables")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.list:
        from spgraph_bench.paths import cuda_dir
        from spgraph_bench.toolchain.modules import kernel_tokens

        sources = [p.relative_to(cuda_dir()).as_posix() for p in sorted(cuda_dir().rglob("*.cu"))]
        json.dump({"calls": calls(given.usual), "tokens": {s: kernel_tokens(s) for s in sources}}, sys.stdout)
        return 0
    if given.before is None:
        parser.error("BEFORE is missing")
    before, after = (in_tree(root, given.usual) for root in (given.before.resolve(), ROOT))
    changed = {s for s, tokens in before["tokens"].items() if after["tokens"].get(s, tokens) != tokens}
    changed_pairs = {p for p in pairs(before, after) if p[0][0] in changed and given.source in p[0][0]}
    compared = sorted(changed_pairs, key=repr)
    taken: dict[str, set[str]] = defaultdict(set)
    for source, _, name in (a for a, _ in compared):
        taken[source].add(name)
    differing: dict[str, list[Call]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        old, new = (
            Tree(r.resolve() / "cuda", Path(folder) / n) for r, n in ((given.before, "before"), (ROOT, "after"))
        )
        for (a, _), equal in zip(compared, pool.map(lambda p: same(old, new, *p, taken), compared), strict=True):
            if not equal:
                differing[a[0]].append(a)
    for source, those in sorted(differing.items()):
        print(f"{source}: {len(those)} kernels differ, first {those[0][2]} with {dict(those[0][1])}")
    alike = sorted(taken.keys() - differing.keys())
    print(f"{len(compared)} kernels of {len(taken)} changed sources compared: {len(alike)} sources are the same")
    if given.write and alike:
        lines = [f'{json.dumps(s)} = ["{before["tokens"][s]}", "{after["tokens"][s]}"]' for s in alike]
        text = KNOWN.read_text(encoding="utf-8")
        KNOWN.write_text(f"{text}\n[{json.dumps(given.write)}]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
