"""Take out of records what they should not tell: ``clean_records.py results/**/*.jsonl`` rewrites the files.

UUIDs of GPUs become hashes with a salt that is drawn for this run and forgotten: in all files of one run a GPU has
one name of its own. Home folder, user and host of this machine go, too, as they do from new records.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import secrets
from pathlib import Path

from spgraph_bench.privacy import without_names

_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)


def cleaned(text: str, salt: bytes) -> str:
    """`text` without UUIDs and names."""

    def hashed(match: re.Match[str]) -> str:
        return f"gpu-{hashlib.sha256(salt + match[0].lower().encode()).hexdigest()[:16]}"

    return without_names(_UUID.sub(hashed, text))


def main() -> None:
    """Rewrite the given files without names and with salted UUIDs."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("files", nargs="+", type=Path)
    salt, changed = secrets.token_bytes(32), 0
    for file in parser.parse_args().files:
        before = file.read_text(encoding="utf-8")
        after = cleaned(before, salt)
        if after != before:
            file.write_text(after, encoding="utf-8")
            changed += 1
    print(f"{changed} files changed")


if __name__ == "__main__":
    main()
