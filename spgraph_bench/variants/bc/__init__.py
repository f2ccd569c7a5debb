"""Betweenness centrality: ``kernels`` are spgraph's, ``batch`` those of several sources in one run, ``cpu`` the
baselines on the host."""

READING_ORDER = ("kernels", "batch")
