"""Which variant to take, from counts of a matrix and a few fitted constants: no GPU is needed.

``facts`` counts, ``spmv`` and ``graphs`` predict and choose, ``sentences`` says it. :func:`spmv.choose` is the one
decision function: the command ``spgraph advise`` calls it, and a variant that chooses by itself can.
"""
