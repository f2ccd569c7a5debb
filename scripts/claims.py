"""Put the verdicts that the host device gives in their place in docs/claims.md.

    claims.py            run the claims that counts judge on the host device, and write the page
    claims.py --check    exit status 1 where a verdict on the page differs

The place is what is between ``<!-- claims: host -->`` and ``<!-- end -->``. Verdicts from records are numbers like
others: see fill_numbers.py.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from spgraph_bench.claims import claims, measure
from spgraph_bench.cli.claims import markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "claims.md"
PLACE = re.compile(r"(<!-- claims: host -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def on_host() -> str:
    """The verdicts of claims that counts judge, run now. The CPU's name is omitted: counts do not depend on it."""
    judged = measure([claim for claim in claims().values() if claim.counted], "host", in_process=True)
    return re.sub(r"claims on [^:]*:", "claims on the host device:", markdown(list(judged)))


def filled(text: str) -> str:
    """`text` with the place filled."""
    verdicts = on_host()
    return PLACE.sub(lambda match: f"{match[1]}{verdicts}{match[3]}", text)


def main() -> int:
    """Write the verdicts into the page, or compare them with --check. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before)
    if not check:
        PAGE.write_text(after, encoding="utf-8")
    elif before != after:
        print("docs/claims.md is stale: run scripts/claims.py")
    return int(check and before != after)


if __name__ == "__main__":
    sys.exit(main())
