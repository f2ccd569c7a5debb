"""Breadth-first search.

spgraph's, from naive to best: ``by_level`` (the host launches each level), ``direction`` (it also balances edges and
chooses a direction), ``whole_search`` (one launch or one graph), ``child_launch`` (levels launched by the GPU).
``batch``: from several sources in one run. ``cpu``: the baselines on the host.
"""

READING_ORDER = ("by_level", "direction", "whole_search", "child_launch", "batch")
