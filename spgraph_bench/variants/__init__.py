"""Variants: a package for each problem, with modules of host functions. See :mod:`spgraph_bench.variants.base`.

What a module of variants needs is here; what else is shared is beside ``base``: ``grids`` (shapes of launches),
``searches`` (levels of traversals), ``cusparse_library`` and ``mkl_library``.
"""

from spgraph_bench.variants.base import Job, Launch, Limits, Sizes, Variant, get_variant, select, variant, variants
from spgraph_bench.variants.grids import BLOCK, blocks_for

__all__ = [
    "BLOCK",
    "Job",
    "Launch",
    "Limits",
    "Sizes",
    "Variant",
    "blocks_for",
    "get_variant",
    "select",
    "variant",
    "variants",
]
