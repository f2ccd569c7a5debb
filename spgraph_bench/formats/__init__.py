"""Sparse formats: one module each. See :mod:`spgraph_bench.formats.base`."""

from spgraph_bench.formats.base import Format, Packed, formats, get_format, register

__all__ = ["Format", "Packed", "formats", "get_format", "register"]
