"""Planted faults, one after another, and who finds them: the tests on the host device, and the tool's own checks.

Each mutant of mutants.toml is one substitution in one file. It is made in a copy of the project; there the tests
that are meant for that kernel are run, and ``spgraph bench`` for its variant. Where tests on the host device find
nothing, they are run once more under its race detector. What ended is kept, so an interrupted run goes on; a mutant is
run again when its file or its entry has changed.

    python scripts/mutants.py                     on the host device
    python scripts/mutants.py --device cuda       its tests marked gpu, and the checks on the GPU
    python scripts/mutants.py --device cuda --checks    the checks alone: a minute in place of many
    python scripts/mutants.py --write             and put the table into docs/measuring.md
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).resolve().parent / "mutants.toml"
PAGE = ROOT / "docs" / "measuring.md"
BEGIN, END = "<!-- mutants: written by scripts/mutants.py -->", "<!-- end of mutants -->"
COPIED = ("spgraph_bench", "cuda", "configs", "tests", "scripts", "pyproject.toml")
SECONDS = 90
"""After that a mutant hangs, which is found as well: a test has a time limit, a variant its watchdog."""
RACE_SECONDS = 300
"""The same under the race detector, which looks at every access."""


@dataclass(frozen=True)
class Mutant:
    """One planted fault; the fields are those of mutants.toml."""

    name: str
    family: str
    kind: str
    file: str
    old: str
    new: str
    tests: str
    """Arguments of pytest: files and -k."""
    bench: str
    """Arguments of spgraph bench, or "" where no variant is concerned."""
    why: str = ""
    """Why tests or checks do not find it, where they do not."""

    def apply(self, root: Path) -> None:
        """Plant it below `root`. ValueError unless its text is there exactly once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has its text {text.count(self.old)} times, not once")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")

    def key(self) -> str:
        """Changes with what is planted, with what is run, and with the file."""
        planted = (self.file, self.old, self.new, self.tests, self.bench)
        what = repr((planted, (ROOT / self.file).read_bytes()))
        return hashlib.sha256(what.encode()).hexdigest()[:16]


def mutants() -> list[Mutant]:
    """The planted faults of mutants.toml, in order."""
    return [Mutant(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]]


def _verdict(
    command: list[str], folder: Path, env: dict[str, str], statuses: Iterable[int], seconds: float | None = None
) -> str:
    """ "found", "not found", "hangs", or what went wrong with the run itself."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds or SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return "hangs"
    if process.returncode in statuses or process.returncode < 0:
        return "found"
    return "not found" if process.returncode == 0 else f"status {process.returncode}: {output[-300:]}"


def run_one(mutant: Mutant, device: str, checks_only: bool = False) -> dict[str, Any]:
    """Plant `mutant` in a copy; what its tests (unless `checks_only`), the race detector and the checks of ``spgraph
    bench`` say. "" for what was not asked."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for part in COPIED:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / part)
        mutant.apply(folder)
        paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]  # where its dependencies may be
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"}
        marker = "gpu" if device == "cuda" else "not gpu"
        tests = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", marker, *shlex.split(mutant.tests)]
        by_tests = "" if checks_only else _verdict([sys.executable, *tests], folder, env, {1})
        by_races = by_bench = ""
        if by_tests == "not found" and device == "host":
            watched = {**env, "SPGRAPH_HOST_SANITIZE": "race"}
            by_races = _verdict([sys.executable, *tests], folder, watched, {1}, RACE_SECONDS)
        if mutant.bench:
            words = [*shlex.split(mutant.bench), "--device", device, "--no-save", "--time-limit", "0.1"]
            by_bench = _verdict([sys.executable, "-m", "spgraph_bench", "bench", *words], folder, env, {1, 4})
    seconds = round(time.monotonic() - begin, 1)
    return {"key": mutant.key(), "tests": by_tests, "races": by_races, "bench": by_bench, "s": seconds}


def _unexplained(mutant: Mutant, outcome: Mapping[str, str]) -> bool:
    """Whether tests or checks do not find it, nor does the race detector, and nothing says why."""
    missed = "not found" in (outcome.get("tests"), outcome.get("bench"))
    return missed and outcome.get("races") != "found" and not mutant.why


def _mark(verdict: str) -> str:
    return {"found": "yes", "hangs": "yes (hangs)", "not found": "**no**", "": "-"}.get(verdict, "?")


def table(all_of_them: Iterable[Mutant], by_device: dict[str, dict[str, Any]]) -> str:
    """Markdown: a line per mutant, for each device whether tests and checks find it, and the shares."""
    rows = list(all_of_them)
    devices = [d for d in ("host", "cuda") if by_device.get(d)]
    names = {"host": "host", "cuda": "GPU"}
    words = {
        "tests": ("tests", "the tests"),
        "races": ("race detector", ""),
        "bench": ("checks", "the checks of `spgraph bench`"),
    }
    columns = [(d, what) for d in devices for what in words if any(one.get(what) for one in by_device[d].values())]
    head = ["fault", "in", "kind", *(f"{words[what][0]}, {names[d]}" for d, what in columns), "why not"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for m in rows:
        cells = [m.name, m.family, m.kind]
        cells += [_mark(by_device[d][m.name].get(what, "") if m.name in by_device[d] else "?") for d, what in columns]
        lines.append("| " + " | ".join([*cells, m.why]) + " |")
    shares = []
    for d, what in columns:
        verdicts = [by_device[d][m.name].get(what) for m in rows if m.name in by_device[d]]
        verdicts = [verdict for verdict in verdicts if verdict]
        hits = sum(verdict in ("found", "hangs") for verdict in verdicts)
        if what == "races":
            shares.append(f"the race detector finds {hits} of the {len(verdicts)} that they do not find")
        else:
            shares.append(f"{words[what][1]} on the {names[d]} find {hits} of {len(verdicts)}")
    text = f"{'; '.join(shares)}."
    return "\n".join([text[:1].upper() + text[1:], "", *lines])


def write(text: str) -> None:
    """Put the table between its marks in docs/measuring.md."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def results_file(device: str) -> Path:
    """Path of the results for `device`: "host" or "cuda"."""
    return ROOT / "results" / "mutants" / f"{device}.json"


def load(device: str) -> dict[str, Any]:
    """Results by name of the planted fault; empty if there is no file."""
    path = results_file(device)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def main() -> int:
    """Run what has no result yet, and write results and the table. Exit status 1 if a run itself failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("host", "cuda"), default="host")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="mutants whose name or family contains this")
    parser.add_argument("--checks", action="store_true", help="only what `spgraph bench` finds, without tests")
    parser.add_argument("--again", action="store_true", help="those that have a result, too")
    parser.add_argument("--write", action="store_true", help="put the table into docs/measuring.md")
    arguments = parser.parse_args()
    everything, results = mutants(), load(arguments.device)
    todo = [
        m
        for m in everything
        if arguments.only in f"{m.family} {m.name}"
        and (arguments.again or results.get(m.name, {}).get("key") != m.key())
    ]
    path = results_file(arguments.device)
    path.parent.mkdir(parents=True, exist_ok=True)
    broken = 0

    def one(mutant: Mutant) -> tuple[Mutant, dict[str, Any]]:
        return mutant, run_one(mutant, arguments.device, arguments.checks)

    with ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for mutant, outcome in pool.map(one, todo):
            results[mutant.name] = outcome
            part = path.with_suffix(".part")
            part.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            part.replace(path)
            broken += any(str(outcome[k]).startswith("status") for k in ("tests", "races", "bench"))
            by_races = f", races {outcome['races']}" if outcome["races"] else ""
            print(
                f"{mutant.name}: tests {outcome['tests']}{by_races}, checks {outcome['bench'] or '-'} "
                f"({outcome['s']} s)",
                flush=True,
            )
    if arguments.write:
        write(table(everything, {d: load(d) for d in ("host", "cuda")}))
    left = [m.name for m in everything if _unexplained(m, results.get(m.name, {}))]
    for name in left:
        print(f"{name}: tests or checks do not find it, and mutants.toml does not say why", file=sys.stderr)
    return 1 if broken or left else 0


if __name__ == "__main__":
    sys.exit(main())
