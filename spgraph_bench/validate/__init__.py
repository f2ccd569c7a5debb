"""Validators: one module for each problem. See :mod:`spgraph_bench.validate.base`."""

from spgraph_bench.validate.base import Checked, Graph, Validator, kernels, make_validator

__all__ = ["Checked", "Graph", "Validator", "kernels", "make_validator"]
