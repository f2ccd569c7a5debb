"""Put the verdicts of docs/claims.md in their places.

    claims.py            judge the records of results/h200, run `spgraph claims` on the host device, write the page
    claims.py --check    exit status 1 where a verdict on the page differs

A place is what is between ``<!-- claims: records -->`` or ``<!-- claims: host -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from spgraph_bench.claims import claims, judge_records, measure
from spgraph_bench.cli.claims import markdown
from spgraph_bench.results.store import read_records

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "claims.md"
PLACE = re.compile(r"(<!-- claims: (records|host) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def from_records() -> str:
    """The verdicts that the records of the H200 give."""
    return markdown(judge_records([*claims().values()], read_records(ROOT / "results" / "h200")))


def on_host() -> str:
    """The verdicts of claims that counts judge, run now. The CPU's name is left out: counts do not depend on it."""
    judged = measure([claim for claim in claims().values() if claim.counted], "host", in_process=True)
    return re.sub(r"claims on [^:]*:", "claims on the host device:", markdown(judged))


def filled(text: str, kinds: tuple[str, ...] = ("records", "host")) -> str:
    """`text` with the places of `kinds` filled."""
    make = {"records": from_records, "host": on_host}

    def fill(found: re.Match[str]) -> str:
        return found[0] if found[2] not in kinds else f"{found[1]}{make[found[2]]()}{found[4]}"

    return PLACE.sub(fill, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before)
    if check:
        if before != after:
            print("docs/claims.md is stale: run scripts/claims.py")
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
