"""`python -m spgraph_bench` is the `spgraph` command."""

from spgraph_bench.cli import main

if __name__ == "__main__":
    main()
