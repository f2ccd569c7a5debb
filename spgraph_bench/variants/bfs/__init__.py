"""Breadth-first search: ``kernels`` and ``child_launch`` are spgraph's, ``cpu`` the baselines on the host."""

READING_ORDER = ("kernels", "child_launch")
