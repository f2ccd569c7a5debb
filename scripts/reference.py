"""Run everything that README, docs and results/ quote, and keep the records: ``make reference``.

    reference.py --list                     the runs, their parts, and which are up to date
    reference.py --build                    compile their modules (needs nvcc, no GPU), before a GPU waits
    reference.py --part 1 --seconds 540     one part; without --part all of them

Each run of scripts/reference.toml is one call of `spgraph`, in this process; a run that fails or takes
longer than its limit does not end the others. Its records replace results/h200/NAME.jsonl once it is
whole. A run whose records are of this very code (``environment.code``) is not repeated, so that a part
that was broken off goes on from there; --again repeats it. Matrices from recipes are made beforehand,
several at a time, since a GPU waits for them otherwise.

SPGRAPH_CACHE names the folder for modules, SPGRAPH_MATRICES the one with the real files. What `--build`
left in the cache holds on any machine with the same release of nvcc: copy the folder there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import shlex
import signal
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kernel_modules import Module, add_build_options, compile_for, of_run

from spgraph_bench import readers, recipes
from spgraph_bench.cli.main import run as spgraph
from spgraph_bench.cores import usable_cores
from spgraph_bench.errors import SpgraphError, UsageError
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems import get_problem
from spgraph_bench.provenance import code_hash, commit
from spgraph_bench.report import render
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import read_records
from spgraph_bench.variants import select, variants

ROOT = Path(__file__).resolve().parent.parent
PLAN = Path(__file__).with_suffix(".toml")
RESULTS = ROOT / "results" / "h200"
FILE = "FILE:"
GOOD = {0}
GRAPH = "rmat:scale=14,symmetrize=1,values=integers"
"""What --build prepares searches and PageRank for: their modules depend on no more of a graph than that it is not so
small that one takes another's kernel."""


@dataclass(frozen=True)
class Run:
    """One call of `spgraph`."""

    name: str
    part: int
    seconds: float
    """What it takes."""
    args: tuple[str, ...]
    fails: bool = False
    """Some of its variants are meant to fail."""
    like: str = ""
    """A smaller recipe for which kernels come in the same shapes; for --build."""

    @property
    def problem(self) -> str:
        """Name of the problem that the command runs."""
        return self.args[1] if self.args[0] == "bench" else self.args[0]

    @property
    def recipe(self) -> str | None:
        """The recipe that its matrix is made from."""
        recipes_given = [a for a in self.args if a.partition(":")[0] in recipes.names() and ":" in a]
        return recipes_given[0] if recipes_given else None

    def values(self, option: str) -> list[str]:
        """What is given for `option`."""
        return [b for a, b in zip(self.args, self.args[1:], strict=False) if a == option]

    def dtypes(self) -> list[str]:
        """The value types that the command runs."""
        offered, requested = get_problem(self.problem).dtypes, self.values("--dtype")
        wanted = ["float32", "float64"] if requested == ["both"] else requested or ["float32"]
        return [d for d in wanted if d in offered] or [offered[0]]

    @property
    def limit(self) -> float:
        """After how many seconds it is broken off."""
        return 2 * self.seconds + 20

    def path(self, folder: Path = RESULTS) -> Path:
        """File of the run's records."""
        return folder / f"{self.name}.jsonl"


def plan(path: Path = PLAN) -> list[Run]:
    """All runs, in order."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["run"]
    return [Run(**{**entry, "args": tuple(entry["args"])}) for entry in entries]


def up_to_date(path: Path) -> bool:
    """Whether these records are whole and of this code."""
    try:
        records = read_records(path)
    except SpgraphError:
        return False
    return bool(records) and all(r.environment.get("code") == code_hash() for r in records)


# ---- modules ----------------------------------------------------------------------------------------------


def needed(run: Run, files: Path | None) -> set[Module]:
    """The modules that `run` compiles, found out by preparing its variants."""
    chosen = [v for v in select(run.problem, [*run.values("--variant"), *run.values("--mode")]) if v.source]
    problem = get_problem(run.problem)
    named = next((a.removeprefix(FILE) for a in run.args if a.startswith(FILE)), None)
    if not chosen:
        return set()
    if not problem.needs_matrix:
        matrix = None
    elif run.like or not problem.is_graph:
        if named and files is None:
            raise UsageError("SPGRAPH_MATRICES is not set", remedy="set it to the folder with the real matrices")
        matrix = readers.read(str(files / named)) if named and files else recipes.make(run.like or run.recipe or "")
    else:
        matrix = recipes.make(GRAPH)
    params = dict(text.split("=", 1) for text in run.values("--param"))
    [order] = run.values("--reorder") or ["none"]
    options = {name: run.values(f"--{name}")[0] for name in problem.options if run.values(f"--{name}")}
    return of_run(chosen, matrix, run.dtypes(), options if problem.is_product else {}, params, order)


def build(runs: Sequence[Run], arch: str, jobs: int | None) -> int:
    """Fill the cache with the modules of these runs."""
    named = os.environ.get("SPGRAPH_MATRICES")
    wanted: set[Module] = set()
    for run in runs:
        more = needed(run, Path(named) if named else None) - wanted
        if more:
            print(f"{run.name}: {len(more)} modules", flush=True)
        wanted |= more
    return compile_for(arch, wanted, jobs)


# ---- matrices ---------------------------------------------------------------------------------------------


def _make(text: str, path: str) -> float:
    """In a process of its own: make a matrix and leave it in `path`."""
    started = time.monotonic()
    matrix = recipes.make(text)
    with open(path, "wb") as file:
        pickle.dump(matrix, file, protocol=5)
    return time.monotonic() - started


class Matrices:
    """Matrices of recipes, made beforehand; the last one is kept in memory."""

    def __init__(self, texts: Sequence[str], folder: Path) -> None:
        self._paths = {text: folder / f"{number}.pickle" for number, text in enumerate(dict.fromkeys(texts))}
        self._last: tuple[str, Matrix] | None = None
        self._plain = recipes.make
        started = time.monotonic()
        workers = max(1, min(len(self._paths), usable_cores() // 2))
        if workers > 1:
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
                futures = {text: pool.submit(_make, text, str(path)) for text, path in self._paths.items()}
                for text, future in futures.items():
                    print(f"  made {text} in {future.result():.1f} s", flush=True)
            print(f"  {len(self._paths)} matrices in {time.monotonic() - started:.1f} s", flush=True)

    def make(self, text: str, progress: Any = None) -> Matrix:
        """As ``recipes.make``."""
        if self._last is None or self._last[0] != text:
            self._last = None  # two of the large ones need not be in memory together
            path = self._paths.get(text)
            if path is not None and path.exists():
                with path.open("rb") as file:
                    self._last = text, pickle.load(file)
            else:
                self._last = text, self._plain(text)
        return self._last[1]


@contextlib.contextmanager
def made_beforehand(texts: Sequence[str]) -> Iterator[None]:
    """Inside, recipes of `texts` are taken from where they were left."""
    with tempfile.TemporaryDirectory(prefix="spgraph-reference-") as folder:
        matrices, plain = Matrices(texts, Path(folder)), recipes.make
        recipes.make = matrices.make  # what the command line calls
        try:
            yield
        finally:
            recipes.make = plain


# ---- runs -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Inside, a KeyboardInterrupt is raised after so long: what is finished is recorded."""

    def over(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def arguments_of(run: Run) -> list[str]:
    """Arguments of the command line, with file names as they are."""
    return [a.removeprefix(FILE) for a in run.args]


def one(
    run: Run, seconds: float, files: Path | None, device: str, call: Callable[[list[str]], int] = spgraph
) -> tuple[int, str]:
    """Run it: exit status, and what it wrote to stdout."""
    args = [*arguments_of(run), "--json", "--no-save", "--device", device]
    if args[0] == "bench" and any(v.where == "cpu" for v in variants(run.problem)):
        args += ["--baseline-seconds", str(run.seconds)]
    out, before = io.StringIO(), Path.cwd()
    if any(a.startswith(FILE) for a in run.args) and files is not None:
        os.chdir(files)  # so that records name the file as anybody would type it
    try:
        with time_limit(seconds), contextlib.redirect_stdout(out):
            status = call(args)
    except KeyboardInterrupt:  # at the very end, when nothing could take it any more
        status = 130
    finally:
        os.chdir(before)
    return status, out.getvalue()


def keep(run: Run, status: int, text: str, folder: Path) -> tuple[str, list[Record]]:
    """Put the records in their place if the run is whole. What is to be said of it, and the records."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    records = [Record.from_json(json.loads(line)) for line in lines]
    bad = [r for r in records if r.status in ("failed", "wrong")]
    path = run.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not records or status not in (GOOD | {1} if run.fails or bad else GOOD):
        path.with_suffix(".broken").write_text(text, encoding="utf-8")
        return f"status {status}, {len(records)} records: not kept as a reference", records
    part = path.with_suffix(".part")
    part.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    part.replace(path)
    path.with_suffix(".broken").unlink(missing_ok=True)
    reasons = ", ".join(f"{r.variant} {r.dtype} {r.status}: {r.reason[:80]}" for r in bad)
    return f"{len(records)} records" + (f"; {reasons}" if reasons else ""), records


def pack(archive: Path, folder: Path, log: Path) -> None:
    """All records and the log in one file."""
    part = archive.with_name(archive.name + ".part")
    with tarfile.open(part, "w:gz", compresslevel=6) as tar:
        for path in sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.broken")]):
            if path.suffix == ".broken" or up_to_date(path):
                tar.add(path, path.relative_to(folder).as_posix())
        if log.exists():
            tar.add(log, log.name)
    part.replace(archive)


def main(words: Sequence[str] | None = None) -> int:
    """Run the plan, or with --build compile what it needs. Returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--part", type=int, action="append", help="only the runs of this part; repeatable")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this run; repeatable")
    parser.add_argument("--list", action="store_true", help="show the runs, start nothing")
    parser.add_argument("--build", action="store_true", help="compile what they need, start nothing")
    add_build_options(parser)
    parser.add_argument("--device", default="cuda", help="where to run (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="for the records (%(default)s)")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="keep records and log in this .tgz, too")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run that may end later")
    parser.add_argument("--again", action="store_true", help="repeat what is up to date")
    given = parser.parse_args(words)
    runs = [r for r in plan() if not given.part or r.part in given.part]
    if unknown := sorted(set(given.only) - {r.name for r in runs}):
        parser.error(f"no run is called {', '.join(unknown)}")
    runs = [r for r in runs if not given.only or r.name in given.only]
    if given.list:
        for r in runs:
            state = "up to date" if up_to_date(r.path(given.out)) else ""
            print(f"{r.part}  {r.name:32} {r.seconds:4.0f} s  {state:10}  {shlex.join(arguments_of(r))}")
        return 0
    if given.build:
        try:
            return build(runs, given.arch, given.jobs)
        except SpgraphError as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_status

    started = time.monotonic()
    todo = [r for r in runs if given.again or not up_to_date(r.path(given.out))]
    print(f"{len(todo)} of {len(runs)} runs to do; code {code_hash()[:12]}, commit {commit().name[:12] or 'unknown'}")
    named = os.environ.get("SPGRAPH_MATRICES")
    files = Path(named).resolve() if named else None
    if files is None and any(a.startswith(FILE) for r in todo for a in r.args):
        parser.error("SPGRAPH_MATRICES must name the folder with the real matrices")
    log = given.out / f"reference-part-{'-'.join(map(str, given.part or ['all']))}.log"
    given.out.mkdir(parents=True, exist_ok=True)
    worst, missing = 0, 0
    with made_beforehand([r.recipe for r in todo if r.recipe]), log.open("a", encoding="utf-8") as file:
        for r in todo:
            left = given.seconds - (time.monotonic() - started)
            if left < r.seconds:
                missing += 1
                continue
            begun = time.monotonic()
            status, text = one(r, min(r.limit, left), files, given.device)
            outcome, records = keep(r, status, text, given.out)
            line = f"{r.name}: {time.monotonic() - begun:.1f} s, {outcome}"
            print(line, flush=True)
            file.write(f"$ spgraph {shlex.join(arguments_of(r))}\n{line}\n{render(records) if records else ''}\n")
            file.flush()
            worst = max(worst, 0 if "not kept" not in outcome else 1)
            if given.archive:
                pack(given.archive, given.out, log)
    print(f"{time.monotonic() - started:.0f} s in all; {missing} runs not started: no time left")
    return 1 if missing else worst


if __name__ == "__main__":
    sys.exit(main())
