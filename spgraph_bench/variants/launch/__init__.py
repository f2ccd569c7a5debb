"""Ways to launch: ``kernels`` are spgraph's."""
