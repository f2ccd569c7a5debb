"""Refinement of a field: ``kernels`` are spgraph's."""
