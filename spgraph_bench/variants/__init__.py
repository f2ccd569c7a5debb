"""Variants: modules of host functions. See :mod:`spgraph_bench.variants.base`."""

from spgraph_bench.variants.base import Job, Launch, Variant, get_variant, select, variant, variants

__all__ = ["Job", "Launch", "Variant", "get_variant", "select", "variant", "variants"]
