"""Refinement of a field: ``kernels`` are ours."""
