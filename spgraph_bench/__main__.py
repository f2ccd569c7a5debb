"""`python -m spgraph_bench` is the `spgraph` command."""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Entry point; imports what takes time where Ctrl-C is waited for already."""
    try:
        from spgraph_bench.cli import main as command

        command()
    except ModuleNotFoundError as error:  # in the import: the command tells its own errors
        if error.name != "click":
            raise
        print("error: the package click is missing\n  remedy: pip install click", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        os._exit(130)  # as in cli.main


if __name__ == "__main__":
    main()
