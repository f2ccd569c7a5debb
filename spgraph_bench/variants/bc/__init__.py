"""Betweenness centrality: ``kernels`` are ours, ``cpu`` the baselines on the host."""
