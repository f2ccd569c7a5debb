"""SpMV, y = A x. Our own kernels from simple to best; ``cpu``, ``cusparse`` and ``mkl`` are libraries.

``coo`` has a thread for each entry. ``csr`` gives a row to a thread, to a warp, to some threads; ``csr_balanced`` gives
each block the same work, whatever the rows, and ``csr_hubs`` keeps x of the busiest columns on the SM. ``ell`` has rows
side by side (ELL, HYB, JDS, SELL), ``dia`` diagonals, ``bsr`` blocks. ``transposed`` goes across the stored order.
``narrow`` reads fewer bytes for each entry. ``binned`` and ``binned_fused`` make reads of x local. ``gathers`` is what
some of them ask of a matrix's columns first.
"""

READING_ORDER = (
    "coo",
    "csr",
    "csr_balanced",
    "csr_hubs",
    "ell",
    "dia",
    "bsr",
    "transposed",
    "narrow",
    "binned",
    "binned_fused",
)
