"""Test one variant alone: what of the battery's tests names it, plain and under the sanitizers, and its modules
with nvcc. ``make test-variant V=csr-quad``, or ``V=bfs/auto`` where two problems have a variant of that name.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from spgraph_bench.variants import Variant, variants

ROOT = Path(__file__).resolve().parent.parent


def chosen(name: str) -> list[Variant]:
    """The variants called `name`, or PROBLEM/NAME."""
    problem, _, own = name.rpartition("/")
    return [v for v in variants() if v.name == own and problem in ("", v.problem)]


def test_files(variant: Variant) -> list[str]:
    """Where its problem's kernels are tested."""
    paths = sorted((ROOT / "tests").glob(f"test_{variant.problem.replace('-', '_')}*_host.py"))
    return [str(path.relative_to(ROOT)) for path in paths]


def commands(variant: Variant) -> list[list[str]]:
    """What is run, one after the other. Names end at a hyphen, so `-k` takes an id's part exactly."""
    tests = ["-m", "pytest", "-q", "-m", "not gpu", *test_files(variant), "-k", variant.name]
    lists = [[sys.executable, *tests], [sys.executable, "scripts/sanitized.py", *tests]]
    if variant.source is not None:
        lists.append([sys.executable, "scripts/compile_all.py", "--source", variant.source])
    return lists


def main() -> int:
    """Run the tests of the named variant. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant")
    name = parser.parse_args().variant
    variants = chosen(name)
    if not variants:
        print(f"error: there is no variant {name!r}\n  remedy: spgraph list", file=sys.stderr)
        return 2
    started, worst = time.monotonic(), 0
    for variant in variants:
        for command in commands(variant):
            print("$", *command[1:], flush=True)
            status = subprocess.run(command, cwd=ROOT).returncode
            worst = max(worst, 0 if status == 5 else status)  # 5: no test names it
    print(f"{name}: {'failed' if worst else 'success'} in {time.monotonic() - started:.0f} s")
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
