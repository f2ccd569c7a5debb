"""What records and messages do not tell: the GPU's own number, where home is, who ran it and on which host.

Records are made to be shown to others. A GPU is distinguished from others of its machine by a hash with a salt that
does not leave the machine's cache folder.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets

from spgraph_bench.errors import SpgraphError
from spgraph_bench.paths import cache_dir, cache_lock, trusted

__all__ = ["pseudonym", "without_home", "without_names"]

_SALT_BYTES = 32
_SHORTEST_USER = 3
_SHORTEST_HOST = 6
"""Shorter names, and hosts without a digit or hyphen ("cuda", "matrix"), are words of other things, too."""


def pseudonym(kind: str, name: str) -> str:
    """`name` (a GPU's UUID) as a hash that is the same in all runs with one cache folder; "" stays "".

    Without a cache that can be written it is the same within a process only.
    """
    if not name:
        return ""
    return f"{kind}-{hashlib.sha256(_salt() + name.encode()).hexdigest()[:16]}"


@functools.cache
def _salt() -> bytes:
    fresh = secrets.token_bytes(_SALT_BYTES)
    try:
        file = cache_dir("machine") / "salt"
        with cache_lock("machine-salt"):
            if trusted(file) and len(salt := file.read_bytes()) == _SALT_BYTES:
                return salt
            part = file.with_suffix(".new")
            part.unlink(missing_ok=True)
            part.touch(0o600)
            part.write_bytes(fresh)
            part.replace(file)
    except (OSError, SpgraphError):
        pass
    return fresh


def without_home(text: str) -> str:
    """`text` with the home folder as ``~``, which a shell takes as well."""
    home = os.path.expanduser("~")
    if len(home) < 2 or not os.path.isabs(home) or home not in text:
        return text
    return re.sub(rf"(?<![\w.~-]){re.escape(home)}(?![\w.-])", "~", text)


def without_names(text: str) -> str:
    """`text` for a record: without the home folder, the user's name in paths, and the host's name."""
    text = without_home(text)
    user, host = _names()
    if len(user) >= _SHORTEST_USER:
        text = re.sub(rf"(?<=/){re.escape(user)}(?=/|$|[\s\"',;:])", "user", text)
    if len(host) >= _SHORTEST_HOST and re.search(r"[\d-]", host):
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "host", text)
    return text


@functools.cache
def _names() -> tuple[str, str]:
    """The user's name and the host's."""
    try:
        import pwd

        user = pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        user = os.environ.get("USER", "")
    return ("" if user == "root" else user), os.uname().nodename.partition(".")[0]
