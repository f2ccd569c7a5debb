"""What a pattern looks like: statistics of places and values, blocks, the transpose."""

from spgraph_bench.structure.analysis import (
    BLOCK_FILL,
    DISTINCT_LIMIT,
    BlockFill,
    Diagonals,
    Structure,
    Symmetry,
    Values,
    analyse,
    diagonals_of,
    transposed,
)
from spgraph_bench.structure.blocks import block_lengths, block_places, by_alignment, count_blocks

__all__ = [
    "BLOCK_FILL",
    "DISTINCT_LIMIT",
    "BlockFill",
    "Diagonals",
    "Structure",
    "Symmetry",
    "Values",
    "analyse",
    "block_lengths",
    "block_places",
    "by_alignment",
    "count_blocks",
    "diagonals_of",
    "transposed",
]
