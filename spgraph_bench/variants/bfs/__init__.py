"""Breadth-first search: ``kernels`` and ``child_launch`` are ours, ``cpu`` the baselines on the host."""

READING_ORDER = ("kernels", "child_launch")
