"""SpMM: ``kernels`` are ours; ``cpu``, ``cusparse`` and ``mkl`` are libraries."""
