"""A file from a web server: resumed where it was cut, checked, and given its name when it is whole.

Servers and what is between them and here are not trusted to be right: a connection may stall or end early, a length
may be wrong, a range ignored, and a page about an error may come with status 200. What is fetched goes to
``.NAME.part``, beside ``.NAME.part.json``, which says of which version of which URL it is a part.
"""

from __future__ import annotations

import base64
import bz2
import contextlib
import gzip
import hashlib
import json
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spgraph_bench import __version__
from spgraph_bench.errors import InputError
from spgraph_bench.units import human_bytes

if TYPE_CHECKING:
    import urllib.error
    import urllib.request

__all__ = [
    "MissingFileError",
    "Patience",
    "Progress",
    "digest_of",
    "download",
    "is_compressed",
    "known_digest",
    "whole_compressed",
]

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the fraction done (None: not known)."""

_PIECE = 1 << 16
_HEAD = 256
_SLOWEST = 100
"""Bytes a second over the time-out; a server below is taken for one that has stopped."""
_WORTH = 1 << 20
"""An attempt that got so many bytes does not count as failed: a large file may need many."""
_LATER = {408, 425, 429, 500, 502, 503, 504}
"""Statuses of servers that may do better next time."""
_MAGIC = {".gz": b"\x1f\x8b", ".tgz": b"\x1f\x8b", ".bz2": b"BZh"}
_IN_THE_WAY = "check the network and the proxy (https_proxy), or fetch it elsewhere and give its path"


class MissingFileError(InputError):
    """The server has no such file (404)."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server."""

    timeout_s: float = 30.0
    """For a connection, for the next bytes, and over which their rate is watched."""
    attempts: int = 4
    """In a row that bring less than 1 MiB."""
    pause_s: float = 1.0
    """Before the second attempt; twice that before the third, and so on."""


class _AgainError(Exception):
    """This attempt failed; the next one may not."""


def _opener() -> urllib.request.OpenerDirector:
    """One that knows http and https alone: no redirect leads to a file of this machine."""
    import urllib.request  # with ssl a twentieth of a second, which every command would take

    class _Redirects(urllib.request.HTTPRedirectHandler):
        """Follows http and https only, and none from https to http."""

        def redirect_request(
            self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
        ) -> urllib.request.Request | None:
            scheme = urlsplit(newurl).scheme.lower()
            if scheme not in ("http", "https") or (urlsplit(req.full_url).scheme == "https" and scheme != "https"):
                raise InputError(
                    f"the server leads from {urlsplit(req.full_url).scheme} to {scheme or 'nowhere'}",
                    place=req.full_url,
                    remedy="fetch it with a browser, if you trust it, and give its path",
                )
            made = super().redirect_request(req, fp, code, msg, headers, newurl)
            if made is not None:
                for name, value in req.header_items():  # urllib keeps most of them; Range must be among these
                    made.add_header(name, value)
            return made

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def is_compressed(name: str) -> Callable[[bytes], str | None]:
    """A function that says what is wrong with the first bytes of a file called `name`, or None."""
    magic = next((m for suffix, m in _MAGIC.items() if name.endswith(suffix)), b"")

    def looks_right(head: bytes) -> str | None:
        if head.startswith(magic):
            return None
        if head.lstrip()[:1] == b"<":
            return "the server sent a web page instead of the file"
        return f"what the server sent is not a {name.rpartition('.')[2]} file"

    return looks_right


def whole_compressed(path: Path) -> str | None:
    """What is wrong with the .gz or .bz2 file `path`, by its compression's own checksums, or None."""
    with path.open("rb") as raw:
        file: Any = bz2.BZ2File(raw) if raw.read(3) == b"BZh" else None
        raw.seek(0)
        file = file or gzip.GzipFile(fileobj=raw)
        try:
            while file.read(1 << 20):
                pass
        except EOFError:
            return "the file ends too early"
        except (OSError, zlib.error) as error:
            return f"the file is corrupted ({error})"
    return None


def digest_of(path: Path, algorithm: str = "sha256") -> str:
    """The hash of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def known_digest(path: Path) -> Path:
    """Where the hash of the file `path` is noted."""
    return path.with_name(f"{path.name}.sha256")


def download(
    url: str,
    target: Path,
    *,
    looks_right: Callable[[bytes], str | None],
    verify: Callable[[Path], str | None],
    sha256: str | None = None,
    patience: Patience,
    progress: Progress = lambda doing, fraction: None,
) -> str:
    """Fetch `url` to `target`, replacing what is there once the new file is whole; its sha256.

    Parameters
    ----------
    looks_right : gets the first bytes, and says what is wrong with them, or None.
    verify : gets the whole file before it has its name, and says what is wrong with it, or None.
    sha256 : what its hash must be.

    Raises InputError with the URL as its place; MissingFileError where the server has no such file.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(target.parent, error) from None
    return _Download(url, target, looks_right, verify, sha256, patience, progress).run()


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot be written: {error.strerror or error}", place=str(path), remedy="free space, or name another --folder"
    )


class _Download:
    def __init__(
        self,
        url: str,
        target: Path,
        looks_right: Callable[[bytes], str | None],
        verify: Callable[[Path], str | None],
        sha256: str | None,
        patience: Patience,
        progress: Progress,
    ) -> None:
        self._url, self._target, self._patience, self._progress = url, target, patience, progress
        self._looks_right, self._verify, self._sha256 = looks_right, verify, sha256
        self._part = target.with_name(f".{target.name}.part")
        self._about = target.with_name(f".{target.name}.part.json")
        self._resumed = False
        self._digests: dict[str, str] = {}
        """What the server says the hashes of the file are, by algorithm."""

    def run(self) -> str:
        failed, restarted = 0, False
        while True:
            before = self._received()
            try:
                self._attempt()
                wrong = self._wrong()
                if wrong is None:
                    return self._finish()
                self._forget()
                if restarted or not self._resumed:
                    raise InputError(wrong, place=self._url, remedy="try again later, or fetch it from another place")
                restarted = True  # of two versions of a file, perhaps: all of it once more
            except _AgainError as stopped:
                failed = 0 if self._received() - before >= _WORTH else failed + 1
                if failed >= self._patience.attempts:
                    raise self._given_up(str(stopped)) from None
                time.sleep(self._patience.pause_s * 2 ** max(failed - 1, 0))

    def _given_up(self, why: str) -> InputError:
        received = self._received()
        resume = f"; {human_bytes(received)} are kept, and the same command goes on from there" if received else ""
        return InputError(why, place=self._url, remedy=f"{_IN_THE_WAY}{resume}")

    def _received(self) -> int:
        try:
            return self._part.stat().st_size
        except OSError:
            return 0

    def _forget(self) -> None:
        for path in (self._part, self._about):
            with contextlib.suppress(OSError):
                path.unlink()

    def _started(self) -> Mapping[str, str]:
        """What is known of the part that is there; nothing, and no part, if it is of something else."""
        try:
            about = json.loads(self._about.read_text(encoding="utf-8"))
            if about["url"] == self._url and isinstance(about["version"], str) and self._received():
                return {"version": about["version"]}
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self._forget()
        return {}

    def _attempt(self) -> None:
        """Ask the server once; _AgainError where the next attempt may go better."""
        import http.client
        import ssl
        import urllib.error
        import urllib.request

        about = self._started()
        received = self._received()
        self._resumed = received > 0
        headers = {"User-Agent": f"spgraph/{__version__}", "Accept-Encoding": "identity"}
        if received:
            headers["Range"] = f"bytes={received}-"
            if about["version"]:  # else a newer file would be taken for the rest of the older
                headers["If-Range"] = about["version"]
        self._progress(f"asking {urlsplit(self._url).hostname}", None)
        request = urllib.request.Request(self._url, headers=headers)
        try:
            with _opener().open(request, timeout=self._patience.timeout_s) as response:
                self._receive(response, received)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error, received)
        except urllib.error.URLError as error:
            raise self._unreachable(error.reason) from None
        except (TimeoutError, http.client.HTTPException, ConnectionError, ssl.SSLError) as error:
            raise self._unreachable(error) from None
        except ValueError as error:  # a redirect to something that is not a URL
            raise InputError(f"the server leads to no URL ({error})", place=self._url, remedy=_IN_THE_WAY) from None

    def _unreachable(self, reason: object) -> Exception:
        import ssl

        host = urlsplit(self._url).hostname
        if isinstance(reason, ssl.SSLCertVerificationError):
            return InputError(
                f"the certificate of {host} cannot be trusted ({reason.verify_message})",
                place=self._url,
                remedy="install the system's certificates (ca-certificates), or set SSL_CERT_FILE",
            )
        if isinstance(reason, TimeoutError):
            return _AgainError(f"{host} does not answer within {self._patience.timeout_s:g} s")
        if isinstance(reason, OSError):
            return _AgainError(f"cannot reach {host}: {(reason.strerror or str(reason)).lower()}")
        what = str(reason) or type(reason).__name__
        return _AgainError(f"cannot talk to {host}: {what}")

    def _refused(self, error: urllib.error.HTTPError, received: int) -> None:
        """What a status other than success means; returns where the part is the whole file."""
        if error.code == 416:
            if (error.headers.get("Content-Range") or "").strip() == f"bytes */{received}":
                return
            self._forget()
            raise _AgainError("the server has another version of the file than the part that is here")
        if error.code in (404, 410):
            raise MissingFileError("there is no such file on the server", place=self._url, remedy="check the name")
        if error.code in _LATER:
            raise _AgainError(f"the server answers {error.code} {error.reason}")
        if error.code in (301, 302, 303, 307, 308):
            scheme = urlsplit(error.headers.get("Location") or "").scheme
            where = f"to {scheme}, not http" if scheme not in ("", "http", "https") else "round in circles"
            raise InputError(f"the server leads {where}", place=self._url, remedy=_IN_THE_WAY)
        raise InputError(f"the server refuses: {error.code} {error.reason}", place=self._url, remedy=_IN_THE_WAY)

    def _receive(self, response: Any, received: int) -> None:
        headers = response.headers
        total = _length(headers)
        if response.status == 206:
            begin, of = _content_range(headers)
            if begin != received:
                self._forget()
                raise _AgainError("the server sent another part than was asked for")
            total = of
        elif response.status == 200:
            received = 0  # all of it: the server does not know ranges, or the file has changed
            self._resumed = False
        else:
            raise InputError(f"the server answers {response.status}", place=self._url, remedy=_IN_THE_WAY)
        self._digests = _digests(headers, partial=response.status == 206)
        self._require_space(None if total is None else total - received)
        begun = False
        try:
            with self._part.open("ab" if received else "wb") as file:
                arriving = _pieces(response, None if total is None else total - received, self._patience.timeout_s)
                for piece in _with_head(arriving):
                    if not begun and not received:
                        if wrong := self._looks_right(piece):
                            raise InputError(wrong, place=self._url, remedy=_IN_THE_WAY)
                        self._note(headers)
                    begun = True
                    _write(file, piece)
                    received += len(piece)
                    size = "" if total is None else f" of {human_bytes(total)}"
                    self._progress(f"{human_bytes(received)}{size}", None if not total else min(received / total, 1.0))
                file.flush()
                os.fsync(file.fileno())
        except InputError:
            if not begun:
                self._forget()
            raise
        except _DiskError as error:
            raise _cannot_write(self._part, error.cause) from None
        if not received:
            self._forget()
            raise _AgainError("the server sent nothing")
        if total is not None and received < total:
            raise _AgainError(f"the connection ended after {human_bytes(received)} of {human_bytes(total)}")

    def _note(self, headers: Any) -> None:
        """Beside the part: what it is a part of. A weak ETag says nothing about bytes."""
        etag = headers.get("ETag") or ""
        version = etag if etag.startswith('"') else headers.get("Last-Modified") or ""
        try:
            self._about.write_text(json.dumps({"url": self._url, "version": version}), encoding="utf-8")
        except OSError as error:
            raise _cannot_write(self._about, error) from None

    def _require_space(self, wanted: int | None) -> None:
        free = shutil.disk_usage(self._target.parent).free
        if wanted is not None and wanted > free:
            raise InputError(
                f"the file has {human_bytes(wanted)} to go, and {human_bytes(free)} are free in {self._target.parent}",
                place=self._url,
                remedy="free space, or name another --folder",
            )

    def _wrong(self) -> str | None:
        """What is wrong with the whole file, or None."""
        self._progress("verifying", None)
        if wrong := self._verify(self._part):
            return wrong
        for algorithm, digest in self._digests.items():
            if digest_of(self._part, algorithm) != digest:
                return f"the file's {algorithm} is not what the server says it is"
        if self._sha256 is not None and (actual := digest_of(self._part)) != self._sha256:
            return f"the file's sha256 is {actual}, not the one that was asked for"
        return None

    def _finish(self) -> str:
        digest = digest_of(self._part)
        try:
            self._part.replace(self._target)
        except OSError as error:
            raise _cannot_write(self._target, error) from None
        self._forget()
        return digest


class _DiskError(Exception):
    """Writing failed: not to be mixed up with what the connection does."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _write(file: IO[bytes], piece: bytes) -> None:
    try:
        file.write(piece)
    except OSError as error:
        raise _DiskError(error) from error


def _with_head(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """`pieces`, of which the first is long enough to tell what it is, or all there is."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= _HEAD:
            yield head
            break
    else:
        if head:
            yield head
    yield from pieces


def _pieces(response: Any, wanted: int | None, timeout_s: float) -> Iterator[bytes]:
    """What arrives, as it arrives, up to `wanted` bytes. Raises _AgainError where next to nothing does."""
    since, lately = time.monotonic(), 0
    left = wanted
    while left is None or left > 0:
        piece = response.read1(_PIECE if left is None else min(_PIECE, left))
        if not piece:
            return
        yield piece
        lately += len(piece)
        left = None if left is None else left - len(piece)
        if (now := time.monotonic()) - since > timeout_s:
            if lately < _SLOWEST * timeout_s:
                raise _AgainError(f"the server sent {lately} bytes in {now - since:.0f} s")
            since, lately = now, 0


def _length(headers: Any) -> int | None:
    text = (headers.get("Content-Length") or "").strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _content_range(headers: Any) -> tuple[int | None, int | None]:
    """Where the part begins that the server sends, and how large the whole file is; None: it does not say."""
    match = re.fullmatch(
        r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)", (headers.get("Content-Range") or "").strip()
    )
    if match is None:
        return None, None
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _digests(headers: Any, partial: bool) -> dict[str, str]:
    """Hashes of the whole file that the server gives, in hexadecimal digits (RFC 9530, RFC 3230, Content-MD5)."""
    digests: dict[str, str] = {}
    for name, algorithm in (("sha-256", "sha256"), ("md5", "md5")):
        for header, form in (("Repr-Digest", rf"{name}=:([^:]+):"), ("Digest", rf"{name}=([^,;\s]+)")):
            if match := re.search(form, headers.get(header) or "", re.IGNORECASE):
                digests[algorithm] = match[1]
    if not partial and (md5 := headers.get("Content-MD5")):
        digests["md5"] = md5
    sizes = {"sha256": 32, "md5": 16}
    whole: dict[str, str] = {}
    for algorithm, text in digests.items():
        with contextlib.suppress(ValueError):
            if len(raw := base64.b64decode(text, validate=True)) == sizes[algorithm]:
                whole[algorithm] = raw.hex()
    return whole
