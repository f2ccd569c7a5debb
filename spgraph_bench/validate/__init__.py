"""Validators: one module for each problem. See :mod:`spgraph_bench.validate.base`."""

from spgraph_bench.validate.base import Checked, Validator, kernels, make_validator

__all__ = ["Checked", "Validator", "kernels", "make_validator"]
