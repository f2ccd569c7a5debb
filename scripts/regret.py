"""How far a mode that chooses is from the best single one.

    regret.py RECORDS... [--mode auto] [--most 1.1]

RECORDS are files or folders of records of searches, as `spgraph bench bfs --results FOLDER` leaves them. For
each graph (and order of its vertices) one line: the mode's time, the best other kernel's, their ratio. The
exit status is 1 where a ratio is above --most, or the mode was not timed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from spgraph_bench.errors import SpgraphError
from spgraph_bench.results.cases import traversal
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import read_records


def main() -> int:
    """Print how far `--mode` is from the best mode on each graph. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--problem", choices=["bfs", "sssp"], default="bfs")
    parser.add_argument("--mode", default="auto")
    parser.add_argument("--cache", choices=["cold", "hot"], default="cold", help="state of the L2 cache")
    parser.add_argument("--most", type=float, default=1.1, help="ratio that is still well (%(default)s)")
    arguments = parser.parse_args()
    graphs: dict[tuple[str, str], dict[str, Record]] = defaultdict(dict)
    try:
        for path in arguments.records:
            for record in read_records(path, lambda text: print(text, file=sys.stderr)):
                if record.problem == arguments.problem and record.where != "cpu" and record.cases:
                    order = str(record.params.get("reorder", "none"))
                    graphs[str(record.matrix["name"]), order][record.variant] = record  # the last one counts
    except SpgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    print(f"{'graph':42} {'order':7} {arguments.mode + ' ms':>10} {'best ms':>10} {'best':16} {'ratio':>6}")
    bad = not graphs
    for (name, order), records in sorted(graphs.items()):
        times = {mode: traversal(record, arguments.cache).mean for mode, record in records.items()}
        mine = times.pop(arguments.mode, None)
        others = {mode: ms for mode, ms in times.items() if ms}
        if not mine or not others:
            print(f"{name:42} {order:7} {'not timed' if not mine else 'nothing to compare with'}")
            bad = bad or not mine
            continue
        best = min(others, key=lambda mode: others[mode])
        ratio = mine / others[best]
        bad = bad or ratio > arguments.most
        print(f"{name:42} {order:7} {mine:10.4f} {others[best]:10.4f} {best:16} {ratio:6.2f}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
