"""Read generated inputs, each in a process that may die of it, and count what comes of them.

``run.py --seconds 20`` or ``run.py --count 100000``; exit status 1 where anything but a matrix or an error of the
input came: a traceback, a signal, status 4, a message that is too long or names no place, or more than 20 s.
Inputs that failed are kept in --keep, and ``run.py --only K`` runs one of them.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import io
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import warnings
from multiprocessing.connection import Connection, wait
from pathlib import Path

from generate import case, sound_files

GOOD = ("read", "refused")
_SLOW_SECONDS = 20.0
_MEMORY = 256 << 20
"""What readers believe to be available: what takes more is refused immediately."""


def outcome(folder: Path, name: str, content: bytes, by_command: bool) -> tuple[str, str]:
    """What comes of an input ("read", "refused", or what should not be), and what was said."""
    from spgraph_bench.cli.main import run
    from spgraph_bench.errors import InputError
    from spgraph_bench.printable import message
    from spgraph_bench.readers import opening, read

    path = folder / name
    path.write_bytes(content)
    try:
        if by_command:
            stderr = io.StringIO()
            with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(io.StringIO()):
                status = run(["info", str(path)])
            printed = stderr.getvalue()
            if status not in (0, 2):
                return f"status {status}", printed
            if opening.UNEXPECTED in printed:
                return "unexpected", printed
            lines = [line for line in printed.splitlines() if not line.startswith(("warning: ", "  remedy"))]
            if any(len(line) > 200 or not line.isprintable() for line in printed.splitlines()) or len(lines) > 1:
                return "message", printed
            return ("read", "") if status == 0 else ("refused", printed)
        csr = read(str(path)).csr
        csr.to_scipy().check_format(full_check=True)
        return "read", ""
    except InputError as error:
        if error.cause.startswith(opening.UNEXPECTED):
            return "unexpected", str(error)
        if not error.place or len(message(str(error)).splitlines()) > 2:
            return "message", str(error)
        return "refused", str(error)
    except BaseException:
        return "traceback", traceback.format_exc()
    finally:
        path.unlink(missing_ok=True)


def _worker(pipe: Connection, seed: int) -> None:
    """Run the numbers that come; answer each with its outcome."""
    import spgraph_bench.memory

    spgraph_bench.memory.available_memory = lambda: _MEMORY  # type: ignore[assignment]
    warnings.simplefilter("ignore")
    faulthandler.disable()  # the parent tells of a signal
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        while (k := pipe.recv()) is not None:
            begin = time.monotonic()
            kind, printed = outcome(Path(folder), *case(seed, k), by_command=k % 16 == 0)
            took = time.monotonic() - begin
            pipe.send((kind if took < _SLOW_SECONDS else "slow", printed))


def fuzz(
    seed: int, count: int | None, seconds: float | None, jobs: int, keep: Path, first: int = 0
) -> collections.Counter:
    """Counts of outcomes; each failure is printed and its input kept in `keep`."""
    fork = multiprocessing.get_context("fork")
    counts: collections.Counter[str] = collections.Counter()
    running: dict[Connection, tuple[multiprocessing.Process, int, float]] = {}
    following, begin = first, time.monotonic()

    def more() -> bool:
        return following < first + count if count is not None else time.monotonic() - begin < (seconds or 0)

    def start() -> None:
        ours, theirs = fork.Pipe()
        process = fork.Process(target=_worker, args=(theirs, seed), daemon=True)
        process.start()
        theirs.close()
        give(ours, process)

    def give(pipe: Connection, process: multiprocessing.Process) -> None:
        nonlocal following
        if not more():
            pipe.close()
            process.terminate()
            process.join()
            return
        pipe.send(following)
        running[pipe] = process, following, time.monotonic()
        following += 1

    for _ in range(jobs):
        start()
    while running:
        for pipe in wait(list(running), timeout=1):
            process, k, _ = running.pop(pipe)
            try:
                kind, printed = pipe.recv()
            except (EOFError, OSError):
                process.join()
                kind, printed = f"signal {-process.exitcode}", "the process ended"
                pipe.close()
            counts[kind] += 1
            if kind not in GOOD:
                name, content = case(seed, k)
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{k}-{name}").write_bytes(content)
                print(f"{kind}: --seed {seed} --only {k} ({name}): {printed.strip()[-600:]}", file=sys.stderr)
            if process.is_alive():
                give(pipe, process)
            else:
                start()
        for pipe, (process, k, since) in list(running.items()):
            if time.monotonic() - since > 3 * _SLOW_SECONDS:
                del running[pipe]
                process.kill()
                process.join()
                counts["slow"] += 1
                print(f"slow: --seed {seed} --only {k}", file=sys.stderr)
                start()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--count", type=int, help="so many inputs, however long it takes")
    parser.add_argument("--seed", type=int, default=None, help="of the inputs (default: the day's date)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", type=int, help="this one input, in this process")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    given = parser.parse_args()
    seed = int(time.strftime("%Y%m%d")) if given.seed is None else given.seed
    os.environ.setdefault("SPGRAPH_CACHE", tempfile.mkdtemp(prefix="fuzz-cache-"))
    if given.only is not None:
        name, content = case(seed, given.only)
        with tempfile.TemporaryDirectory() as folder:
            print(name, content[:2000], *outcome(Path(folder), name, content, given.only % 16 == 0), sep="\n")
        return 0
    import spgraph_bench.cli.info  # what workers need is imported once, before they are forked
    import spgraph_bench.readers

    spgraph_bench.readers.readers()
    sound_files()
    begin = time.monotonic()
    counts = fuzz(seed, given.count, None if given.count else given.seconds, given.jobs, given.keep, given.first)
    bad = sum(n for kind, n in counts.items() if kind not in GOOD)
    summary = ", ".join(f"{n:,} {kind}" for kind, n in counts.most_common())
    print(f"seed {seed}: {counts.total():,} inputs in {time.monotonic() - begin:.0f} s: {summary or 'none'}")
    return 1 if bad or not counts.total() else 0


if __name__ == "__main__":
    sys.exit(main())
