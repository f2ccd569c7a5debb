"""Points of Bezier curves: ``kernels`` are spgraph's."""
