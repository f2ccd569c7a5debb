"""Compile what a sweep will want, where there is nvcc and no GPU: before a GPU waits for it.

    prepare_modules.py advise                                  a config
    prepare_modules.py 'matrices/*.mtx' --dtype both           files, as for `spgraph sweep`

Takes the words that follow `spgraph sweep`, makes or reads every matrix, and prepares every variant for it on a
device that only takes notes (kernel_modules.py): so kernels that are compiled for a matrix are found, too. An H200
is what sizes are chosen by. SPGRAPH_CACHE names the folder; it holds on any machine with the same release of nvcc:
copy it there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kernel_modules import Module, add_build_options, compile_for, of_run
from sweeps import blocks_of, with_matrices

from spgraph_bench.errors import SpgraphError
from spgraph_bench.sweep.plan import Block


def needed(blocks: Sequence[Block]) -> set[Module]:
    """The modules that a sweep of `blocks` compiles; what cannot be read is left to it."""
    wanted: set[Module] = set()
    started = time.monotonic()
    for block, matrix in with_matrices(blocks):
        variants = [v for v in block.variants if v.source]
        if isinstance(matrix, SpgraphError):
            print(f"{block.title}: {matrix}", file=sys.stderr)
            continue
        if not variants:
            continue
        known = len(wanted)
        try:
            for order in block.orders:
                wanted |= of_run(variants, matrix, block.dtypes, block.options, block.params, order, block.offsets)
        except SpgraphError as error:  # the problem takes no such matrix
            print(f"{block.title}: {error}", file=sys.stderr)
            continue
        print(f"{block.title}: {len(wanted) - known} modules more, {time.monotonic() - started:.1f} s", flush=True)
        started = time.monotonic()
    return wanted


def main(words: Sequence[str] | None = None) -> int:
    """Compile what `spgraph sweep WORDS` will want. Returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_build_options(parser)
    given, swept = parser.parse_known_args(words)
    status, blocks = blocks_of(swept)
    return compile_for(given.arch, needed(blocks), given.jobs) if blocks else status


if __name__ == "__main__":
    sys.exit(main())
