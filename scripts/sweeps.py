"""What a sweep would run, for scripts that prepare it (prepare_modules.py) or count its matrices (judge_advice.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spgraph_bench.cli import sweep as command_line
from spgraph_bench.cli.main import run as spgraph
from spgraph_bench.cli.sweep_running import SweepRequest
from spgraph_bench.errors import SpgraphError
from spgraph_bench.matrix import Matrix
from spgraph_bench.sweep.inputs import Input
from spgraph_bench.sweep.plan import Block, make_plan

__all__ = ["blocks_of", "with_matrices"]


def blocks_of(words: Sequence[str]) -> tuple[int, list[Block]]:
    """The blocks that `spgraph sweep WORDS` runs on a GPU, in its order, and the exit status: not 0 where it says what
    is wrong with the words."""
    requests: list[SweepRequest] = []

    def keep(request: SweepRequest) -> int:
        requests.append(request)
        return 0

    plain, command_line.sweep = command_line.sweep, keep  # what the command line calls once it is read
    try:
        status = spgraph(["sweep", *words])
    finally:
        command_line.sweep = plain
    return status, [block for request in requests for block in make_plan(request.entries, "cuda").blocks]


def with_matrices(blocks: Sequence[Block]) -> Iterator[tuple[Block, Matrix | SpgraphError | None]]:
    """Each block with its matrix, which is made or read once for blocks in turn that share it; the error where that
    fails, None where the problem makes its own inputs."""
    last: Input | None = None
    made: Matrix | SpgraphError | None = None
    for block in blocks:
        if block.input.kind == "options":
            yield block, None
            continue
        if block.input != last:
            last, made = block.input, None
            try:
                made = block.input.load()
            except SpgraphError as error:
                made = error
        yield block, made
