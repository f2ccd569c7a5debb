"""Matrices and graphs made from a line of text, in place of a file: ``rmat:scale=20,edgefactor=16,seed=1``.

The same text gives the same matrix, bit by bit, on any machine and with any numpy: recipes draw only from
the raw output of a bit generator (numpy guarantees that stream, not the methods of its Generator), and
compute with integers, or with float operations that IEEE 754 rounds exactly (never pow, exp or log).
"""

from spgraph_bench.recipes.base import Recipe, Size, make, names, parse, recipes, size_of

__all__ = ["Recipe", "Size", "make", "names", "parse", "recipes", "size_of"]
