"""SpMV: ``kernels``, ``blocks``, ``binned`` ... are ours; ``cpu``, ``cusparse`` and ``mkl`` are libraries."""
