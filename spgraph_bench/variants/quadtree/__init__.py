"""Quadtrees: ``kernels`` are ours."""
