"""spgraph: which sparse format, kernel or traversal is fastest for your own matrix on an NVIDIA GPU."""

__version__ = "0.1.0"
