"""What people read: tables and plots of records and arrays, as text. Nothing here prints."""

from spgraph_bench.report.plots import histogram, spy
from spgraph_bench.report.render import render

__all__ = ["histogram", "render", "spy"]
