"""Run the command lines of a config, one after another: ``run_config.py spmv [more options of spgraph]``.

A config (configs/NAME.toml) has a line ``about`` and a list ``run`` of tables with ``args``, the arguments of
one `spgraph` call. A call that fails does not end the others; the exit status is the worst one.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tomllib

from spgraph_bench.paths import configs_dir


def main() -> int:
    known = sorted(path.stem for path in configs_dir().glob("*.toml"))
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("config", choices=known)
    arguments, more = parser.parse_known_args()
    config = tomllib.loads((configs_dir() / f"{arguments.config}.toml").read_text(encoding="utf-8"))
    print(config["about"], file=sys.stderr)
    worst = 0
    for run in config["run"]:
        args = [*run["args"], *more]
        print(f"\n$ spgraph {shlex.join(args)}", flush=True)
        status = subprocess.run([sys.executable, "-P", "-m", "spgraph_bench", *args]).returncode
        if status in (130, -2):
            return 130
        worst = max(worst, status)
    return worst


if __name__ == "__main__":
    sys.exit(main())
