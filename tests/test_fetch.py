"""`spgraph fetch` against a server on this machine that does everything a server may do wrong; no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.server
import io
import json
import random
import re
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import spgraph_bench
from spgraph_bench import fetching, recipes
from spgraph_bench.cli.main import run
from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.fetching import Filter, MissingFileError, Patience
from spgraph_bench.fetching.index import parse_index

QUICK = Patience(timeout_s=0.4, attempts=3, pause_s=0.01)
INDEX = """4
31-Oct-2023 18:12:37
HB,1138_bus,1138,1138,4054,1,0,0,1,1,1,power network problem,4054
HB,small,3,3,4,1,0,0,1,1,1,structural problem,4
SNAP,small,100,100,900,1,1,0,0,0.25,0.25,directed graph,900
LPnetlib,lp_afiro,27,51,102,1,0,0,0,0,0,"linear programming problem, small",102
"""


def _archive(name: str, text: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo(f"{name}/{name}.mtx")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return packed.getvalue()


def _matrix() -> bytes:
    """300 kB that hardly compress, so that a file can be cut in many places."""
    draw = random.Random(1)
    lines = [f"{i % 999 + 1} {draw.randrange(999) + 1} {draw.random():.17g}" for i in range(10_000)]
    return ("%%MatrixMarket matrix coordinate real general\n999 999 10000\n" + "\n".join(lines) + "\n").encode()


DATA = _archive("1138_bus", _matrix())
NULLS_32 = base64.b64encode(bytes(32)).decode()
FILES = {
    "/MM/HB/1138_bus.tar.gz": DATA,
    "/MM/HB/small.tar.gz": _archive("small", b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n"),
    "/files/ssstats.csv": INDEX.encode(),
    "/data/wiki-Vote.txt.gz": gzip.compress(b"# Nodes: 3 Edges: 2\n0\t1\n1\t2\n"),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves FILES with ranges; ``server.trick`` may do something else."""

    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        if self.server.trick is not None and self.server.trick(self):
            return
        data = FILES.get(self.path)
        if data is None:
            self.send_error(404)
            return
        self.give(data)

    def give(self, data: bytes, sent: int | None = None, claimed: int | None = None, **headers: str) -> None:
        """`data`, or what is asked of it; of that the first `sent` bytes, with a length of `claimed`."""
        begin = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if wanted and self.headers.get("If-Range") == '"v1"':
            begin = int(wanted[1])
            if begin >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.end_headers()
                return
        part = data[begin:]
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part) if claimed is None else claimed))
        self.send_header("ETag", '"v1"')
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(part[:sent])

    def log_message(self, *args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    trick: Callable[[Handler], bool] | None = None

    def handle_error(self, *args: object) -> None:
        pass  # a client that gave up

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(running: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    running.trick = None
    running.seen.clear()
    monkeypatch.setenv("SPGRAPH_SUITESPARSE_URL", running.url)
    monkeypatch.setenv("SPGRAPH_SNAP_URL", f"{running.url}/data/")
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    return running


def _fetch(folder: Path, name: str = "HB/1138_bus", **more: str | bool) -> Path:
    return fetching.fetch(name, folder, patience=QUICK, **more)  # type: ignore[arg-type]


def test_by_name_once_and_whole(server: Server, tmp_path: Path) -> None:
    path = _fetch(tmp_path)
    assert path == tmp_path / "suitesparse/HB/1138_bus.tar.gz"
    assert path.read_bytes() == DATA
    assert _fetch(tmp_path) == path
    assert len(server.seen) == 1
    digest = hashlib.sha256(DATA).hexdigest()
    assert path.with_name("1138_bus.tar.gz.sha256").read_text() == f"{digest}  1138_bus.tar.gz\n"
    assert sorted(p.name for p in path.parent.iterdir()) == ["1138_bus.tar.gz", "1138_bus.tar.gz.sha256"]
    assert server.seen[0][1]["User-Agent"].startswith("spgraph/")
    path.write_bytes(DATA[:-1])
    with pytest.raises(InputError, match="has changed since it was fetched"):
        _fetch(tmp_path)
    assert _fetch(tmp_path, refresh=True).read_bytes() == DATA


def test_a_cut_connection_goes_on_where_it_ended(server: Server, tmp_path: Path) -> None:
    """Each attempt brings 50 kB: the next asks for the rest only."""
    server.trick = lambda handler: handler.give(DATA, sent=50_000) or True  # type: ignore[func-returns-value]
    patience = Patience(0.4, attempts=10, pause_s=0)
    assert fetching.fetch("HB/1138_bus", tmp_path, patience=patience).read_bytes() == DATA
    ranges = [headers.get("Range") for _, headers in server.seen]
    assert ranges == [None, *(f"bytes={position}-" for position in range(50_000, len(DATA), 50_000))]


def test_an_interrupted_call_is_resumed_by_the_next(server: Server, tmp_path: Path) -> None:
    server.trick = lambda handler: handler.give(DATA, sent=70_000) or True  # type: ignore[func-returns-value]
    with pytest.raises(InputError, match="the connection ended after") as stopped:
        fetching.fetch("HB/1138_bus", tmp_path, patience=Patience(0.4, attempts=1))
    assert "goes on from there" in str(stopped.value.remedy)
    assert not list(tmp_path.rglob("1138_bus.tar.gz"))  # a part has no name
    server.trick = None
    assert _fetch(tmp_path).read_bytes() == DATA
    assert server.seen[-1][1]["Range"] == "bytes=70000-"


@pytest.mark.parametrize("kind", ["ignores", "changed", "no version", "other part", "garbled", "complete"])
def test_resuming_meets_a_server_that(kind: str, server: Server, tmp_path: Path) -> None:
    """...ignores ranges, has a new file, has none of the headers, sends another range, or has nothing left to send."""
    part = tmp_path / "suitesparse/HB/.1138_bus.tar.gz.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA if kind == "complete" else b"x" * 9_000 if kind == "garbled" else DATA[:9_000])
    version = {"no version": "", "changed": '"v0"'}.get(kind, '"v1"')
    url = f"{server.url}/MM/HB/1138_bus.tar.gz"
    part.with_name(part.name + ".json").write_text(json.dumps({"url": url, "version": version}))

    def trick(handler: Handler) -> bool:
        if kind == "ignores":
            del handler.headers["Range"]
        if kind == "other part" and handler.headers.get("Range"):
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes 5-{len(DATA) - 1}/{len(DATA)}")
            handler.end_headers()
            handler.wfile.write(DATA[5:])
            return True
        return False

    server.trick = trick
    assert _fetch(tmp_path).read_bytes() == DATA
    assert server.seen[0][1]["Range"].startswith("bytes=")


def test_a_part_of_something_else_is_dropped(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "suitesparse/HB/.1138_bus.tar.gz.part"
    part.parent.mkdir(parents=True)
    for about in ("not json", "[]", json.dumps({"url": "http://elsewhere/", "version": ""})):
        part.write_bytes(b"x" * 100)
        part.with_name(part.name + ".json").write_text(about)
        assert _fetch(tmp_path, refresh=True).read_bytes() == DATA
        assert "Range" not in server.seen[-1][1]


def _page(handler: Handler) -> bool:
    page = b"<!DOCTYPE html><title>Sign in to the network</title>" * 20
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(page)))
    handler.end_headers()
    handler.wfile.write(page)
    return True


def _slowly(handler: Handler) -> bool:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(DATA)))
    handler.end_headers()
    for byte in DATA[:30]:  # often enough for the time-out of a socket
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.05)
    return True


def _hanging(handler: Handler) -> bool:
    time.sleep(0.6)
    return True


def _status(code: int, **headers: str) -> Callable[[Handler], bool]:
    def trick(handler: Handler) -> bool:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        return True

    return trick


def _given(data: bytes, **more: object) -> Callable[[Handler], bool]:
    def trick(handler: Handler) -> bool:
        handler.give(data, **more)  # type: ignore[arg-type]
        return True

    return trick


def _claims_more(handler: Handler) -> bool:
    del handler.headers["Range"]  # else the second attempt hears from it that nothing is missing
    handler.give(DATA, claimed=len(DATA) + 500)
    return True


def _raw(data: bytes) -> Callable[[Handler], bool]:
    def trick(handler: Handler) -> bool:
        handler.wfile.write(data)
        return True

    return trick


@pytest.mark.parametrize(
    ("trick", "message"),
    [
        (_page, "sent a web page instead of the file"),
        (_given(b"plain text, no archive" * 20), "is not a gz file"),
        (_given(DATA[:-9], claimed=None), "ends too early"),
        (_claims_more, "the connection ended after"),
        (_given(DATA, claimed=len(DATA) - 500), "ends too early"),
        (_given(DATA[:2000] + b"\0\0\0\0" + DATA[2004:]), "is corrupted"),
        (_given(DATA, Repr_Digest=f"sha-256=:{NULLS_32}:"), "sha256 is not what the server"),
        (_given(DATA, Content_MD5=base64.b64encode(bytes(16)).decode()), "md5 is not what the server"),
        (_given(b""), "the server sent nothing"),
        (_slowly, "the server sent [0-9]+ bytes in"),
        (_hanging, "does not answer within 0.4 s"),
        (_status(503), "answers 503"),
        (_status(403), "refuses: 403"),
        (_status(301, Location="/MM/HB/1138_bus.tar.gz"), "round in circles"),
        (_status(302, Location="file:///etc/passwd"), "leads to file"),
        (_status(302, Location="ftp://127.0.0.1/a"), "leads from http to ftp"),
        (_status(302), "refuses: 302|round in circles"),
        (_status(204), "answers 204"),
        (_raw(b"nonsense\r\n\r\n"), "cannot talk to"),
        (_raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "cannot talk to|ended|sent nothing"),
    ],
)
def test_what_servers_do_wrong(trick: Callable[[Handler], bool], message: str, server: Server, tmp_path: Path) -> None:
    """One error in words with the URL as its place; nothing that looks like the file is left."""
    server.trick = trick
    with pytest.raises(InputError, match=message) as error:
        fetching.fetch("HB/1138_bus", tmp_path, patience=Patience(0.4, attempts=2, pause_s=0))
    assert error.value.place == f"{server.url}/MM/HB/1138_bus.tar.gz"
    assert error.value.remedy
    assert not list(tmp_path.rglob("1138_bus.tar.gz"))


def test_a_file_of_unknown_length_and_a_redirect(server: Server, tmp_path: Path) -> None:
    def trick(handler: Handler) -> bool:
        if handler.path.startswith("/MM"):
            return _status(302, Location="/elsewhere")(handler)
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(DATA)
        return True

    server.trick = trick
    assert _fetch(tmp_path).read_bytes() == DATA


def test_a_redirect_keeps_the_range(server: Server, tmp_path: Path) -> None:
    def trick(handler: Handler) -> bool:
        if handler.path.startswith("/MM"):
            return _status(302, Location="/elsewhere")(handler)
        handler.give(DATA, sent=60_000)
        return True

    server.trick = trick
    assert _fetch(tmp_path).read_bytes() == DATA
    assert ("/elsewhere", "bytes=60000-") in [(path, headers.get("Range")) for path, headers in server.seen]


def test_an_error_that_passes(server: Server, tmp_path: Path) -> None:
    server.trick = lambda handler: len(server.seen) < 3 and _status(503)(handler)
    assert _fetch(tmp_path).read_bytes() == DATA


def test_the_sha256_that_was_asked_for(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the one that was asked for"):
        _fetch(tmp_path, sha256="0" * 64)
    assert _fetch(tmp_path, sha256=hashlib.sha256(DATA).hexdigest()).is_file()
    assert run(["fetch", "HB/1138_bus", "--sha256", "12"]) == 2
    assert run(["fetch", "HB/1138_bus", "HB/small", "--sha256", "0" * 64]) == 2


def test_too_little_space(server: Server, tmp_path: Path) -> None:
    server.trick = _given(DATA, claimed=10**17)
    with pytest.raises(InputError, match=r"100 PB to go, and .* free"):
        _fetch(tmp_path)


def test_two_at_a_time_fetch_once(server: Server, tmp_path: Path) -> None:
    threads = [threading.Thread(target=_fetch, args=(tmp_path,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.seen) == 1


def test_without_a_network(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPGRAPH_SUITESPARSE_URL", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"cannot reach 127.0.0.1: connection refused"):
        _fetch(tmp_path)
    monkeypatch.setenv("SPGRAPH_SUITESPARSE_URL", "http://nowhere.invalid")
    with pytest.raises(InputError, match=r"cannot reach nowhere.invalid"):
        _fetch(tmp_path)
    for url in ("file:///tmp", "nonsense", "http://"):
        monkeypatch.setenv("SPGRAPH_SUITESPARSE_URL", url)
        with pytest.raises(UsageError, match="SPGRAPH_SUITESPARSE_URL is not an http or https URL"):
            _fetch(tmp_path)


@pytest.mark.parametrize(
    "name", ["HB", "HB/", "../etc/passwd", "HB/..", "HB/a b", "HB/a/b", "nowhere:x", "konect:a/b", "snap:../x", "/", ""]
)
def test_names_that_none_can_be(name: str) -> None:
    with pytest.raises(UsageError):
        fetching.remote_of(name)


def test_names_and_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    for site in fetching.SITES.values():
        monkeypatch.delenv(site.variable, raising=False)
        assert site.name not in recipes.names()
    assert {
        name: fetching.remote_of(name).url for name in ("HB/1138_bus", "snap:wiki-Vote", "konect:moreno_zebra")
    } == {
        "HB/1138_bus": "https://sparse.tamu.edu/MM/HB/1138_bus.tar.gz",
        "snap:wiki-Vote": "https://snap.stanford.edu/data/wiki-Vote.txt.gz",
        "konect:moreno_zebra": "http://konect.cc/files/download.tsv.moreno_zebra.tar.bz2",
    }
    assert fetching.remote_of("snap:bigdata/communities/com-lj.ungraph").url.endswith("/com-lj.ungraph.txt.gz")
    assert fetching.remote_of("snap:soc-sign-bitcoin-alpha.csv.gz").url.endswith("/soc-sign-bitcoin-alpha.csv.gz")


def test_paths_are_not_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    for text in ("here/1138_bus", "data/a.mtx", "data/a.mtx.gz", "./HB", "/HB/a", "a/b/c", "rmat:scale=3", "HB"):
        assert not fetching.is_collection_name(text)
    for text in ("HB/1138_bus", "JGD_Homology/ch5-5-b3", "snap:wiki-Vote", "konect:x"):
        assert fetching.is_collection_name(text)


def test_the_command(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Paths on stdout; one that fails does not keep the others."""
    assert run(["fetch", "HB/1138_bus", "HB/smal", "snap:wiki-Vote", "--folder", "m", "--timeout", "5"]) == 2
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["m/suitesparse/HB/1138_bus.tar.gz", "m/snap/wiki-Vote.txt.gz"]
    assert "the SuiteSparse Matrix Collection has no HB/smal" in shown.err
    assert "1 of 3 could not be fetched" in shown.err
    assert run(["fetch", "HB/small", "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert made["path"] == str(tmp_path / "cache/fetched/suitesparse/HB/small.tar.gz")


def test_by_filter(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*args: str) -> list[str]:
        assert run(["fetch", *args, "--list", "--json"]) == 0
        return [entry["name"] for entry in json.loads(capsys.readouterr().out)]

    assert listed("HB/*") == ["HB/small", "HB/1138_bus"]
    assert listed("--symmetric", "--rows", "1k..") == ["HB/1138_bus"]
    assert listed("--nnz", "..500") == ["HB/small", "LPnetlib/lp_afiro"]
    assert listed("--kind", "Linear") == ["LPnetlib/lp_afiro"]
    assert listed("--values", "binary", "--square") == ["SNAP/small"]
    assert listed("--positive-definite", "--limit", "1") == ["HB/small"]
    assert listed("--rectangular", "--cols", "51") == ["LPnetlib/lp_afiro"]
    assert listed("lp_afiro") == ["LPnetlib/lp_afiro"]
    assert [path for path, _ in server.seen] == ["/files/ssstats.csv"]
    assert run(["fetch", "--kind", "power", "--list"]) == 0
    assert "power network problem" in capsys.readouterr().out
    assert run(["fetch", "HB/*", "--limit", "1"]) == 0
    assert capsys.readouterr().out.endswith("HB/small.tar.gz\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "fetch what?"),
        (["HB/1138_bus", "--rows", "1.."], "do not go with a name"),
        (["HB/1138_bus", "--limit", "3"], "--limit belongs to filters"),
        (["--rows", "9..3"], "is not LOW..HIGH"),
        (["--rows", "a.."], "is not a whole number"),
        (["--rows", ".."], "is not LOW..HIGH"),
        (["--rows", "1.5"], "is not a whole number"),
        (["--timeout", "nan", "HB/1138_bus"], "is not a number above 0"),
        (["small"], "small is in several groups"),
        (["1138_bsu"], "did you mean 1138_bus?"),
        (["a b"], "is not a name"),
        (["XX/*"], "no matrix of the collection matches"),
        (["elsewhere:x"], "no collection 'elsewhere'"),
        (["HB/1138_bus", "--folder", "file"], "is a file"),
        (["HB/1138_bus", "--folder", "file/in"], "cannot be written"),
    ],
)
def test_wrong_command_lines(
    args: list[str], message: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run(["fetch", *args]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) <= 3


def test_a_filter_that_fits_too_much(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spgraph_bench.cli.fetch._MOST", 2)
    assert run(["fetch", "--rows", "1.."]) == 2
    assert "4 matrices match" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("<html>", ":1"),
        ("1\ndate\nHB,a,1\n", ":3"),
        ("1\ndate\nHB,a,x,1,1,1,1,1,1,1,1,k,1\n", ":3"),
        ("2\ndate\n", "i"),
    ],
)
def test_what_is_not_an_index(text: str, place: str) -> None:
    with pytest.raises(InputError) as error:
        parse_index(text.encode(), "i")
    assert str(error.value.place).endswith(place)


def test_an_old_index_serves_where_there_is_no_new_one(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "suitesparse/ssstats.csv"
    path.parent.mkdir()
    path.write_text(INDEX)
    monkeypatch.setattr("time.time", lambda real=time.time: real() + 40 * 86400)
    server.trick = _page
    warned: list[str] = []
    entries = fetching.load_index(tmp_path, patience=QUICK, warn=warned.append)
    assert [e.full_name for e in entries if Filter(names=("HB/*",)).fits(e)] == ["HB/1138_bus", "HB/small"]
    assert "40 days old" in warned[0]
    with pytest.raises(InputError, match="is not the index"):
        fetching.load_index(tmp_path, refresh=True, patience=QUICK)


def test_commands_that_read_fetch(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "HB/small", "--json"]) == 0
    shown = capsys.readouterr()
    to = tmp_path / "cache/fetched/suitesparse/HB/small.tar.gz"
    assert f"fetching {server.url}/MM/HB/small.tar.gz to {to}" in shown.err
    assert json.loads(shown.out)["matrix"]["name"] == "small"
    matrix = spgraph_bench.read("snap:wiki-Vote")
    assert (matrix.name, matrix.csr.rows, matrix.csr.nnz) == ("wiki-Vote", 3, 2)
    assert run(["info", "HB/smal"]) == 2  # before there is an index: without advice
    with pytest.raises(MissingFileError, match="SNAP has no nothing"):
        spgraph_bench.read("snap:nothing")
    assert run(["fetch", "--list", "--nnz", "4"]) == 0
    capsys.readouterr()
    assert run(["info", "HB/smal"]) == 2
    assert "did you mean HB/small?" in capsys.readouterr().err
