"""Quadtrees: ``kernels`` are spgraph's."""
