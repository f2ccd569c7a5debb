"""The command line: the only part of spgraph that prints."""

from spgraph_bench.cli.main import main

__all__ = ["main"]
