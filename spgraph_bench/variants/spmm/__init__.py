"""SpMM: ``kernels`` are spgraph's; ``cpu``, ``cusparse`` and ``mkl`` are libraries."""
