"""Breadth-first search: ``kernels`` and ``child_launch`` are ours, ``cpu`` the baselines on the host."""
