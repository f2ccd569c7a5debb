"""Shortest paths: ``kernels`` are spgraph's, ``cpu`` the baselines on the host."""
