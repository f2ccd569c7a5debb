"""`python -m spgraph_bench` is the `spgraph` command."""

import os
import sys
from typing import NoReturn


def _leave_current_folder() -> None:
    """Take the working folder off the path of imports: a `numpy.py` in a download folder must not be run.

    Python puts it there for `python -m`, and for an empty entry of PYTHONPATH. A folder that PYTHONPATH names
    in full stays, and so do those of installed packages, which come after the standard library.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        return
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named = [entry for entry in entries if os.path.isabs(entry) or os.path.realpath(entry or ".") != here]
    if here not in map(os.path.realpath, named):
        library = os.path.dirname(os.__file__)
        end = sys.path.index(library) if library in sys.path else len(sys.path)
        sys.path[:end] = [path for path in sys.path[:end] if os.path.realpath(path or ".") != here]
    if named != entries:  # what we start inherits it
        os.environ["PYTHONPATH"] = os.pathsep.join(named)
        if not named:
            del os.environ["PYTHONPATH"]


def main() -> NoReturn:
    """Entry point; imports what takes time where Ctrl-C is waited for already."""
    try:
        _leave_current_folder()
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
