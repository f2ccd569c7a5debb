"""`spgraph smoke`: does everything work on this machine? For CI; one small input for each kind of kernel."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spgraph_bench.cli.options import PathParam, device_option
from spgraph_bench.cli.running import show_progress
from spgraph_bench.cli.terminal import note, out, warn
from spgraph_bench.errors import DeviceError

if TYPE_CHECKING:
    from spgraph_bench.device.probe import DeviceChoice
    from spgraph_bench.report.junit import Suite
    from spgraph_bench.results.record import Record
    from spgraph_bench.runner.smoke import SmokeCase

__all__ = ["command"]


@click.command("smoke")
@device_option
@click.option("--junit", type=PathParam(dir_okay=False), metavar="FILE", help="Also write the outcome as JUnit XML.")
@click.option("--results", type=PathParam(file_okay=False), metavar="DIR", help="Keep the records in this folder.")
def command(device: str, junit: Path | None, results: Path | None) -> int:
    """Check that everything works on this machine: every problem and kernel, on small inputs.

    Exit status: 0 success; 1 a variant is wrong, failed, or did not run although it must; 3 the requested device
    cannot be used (with --device cuda: no GPU, no PyCUDA, no nvcc).

    \b
      spgraph smoke --device cuda --junit smoke.xml
      spgraph smoke --device host
    """
    from spgraph_bench.device.probe import choose_device
    from spgraph_bench.runner.smoke import SMOKE_CASES
    from spgraph_bench.writers import check_place

    if junit is not None:
        check_place(junit, overwrite=True)
    suites: list[Suite] = []
    about = {"asked for": device}
    try:
        choice = choose_device(device)
        if choice.warning:
            warn(choice.warning)
        if choice.note:
            note(choice.note)
        return _run(choice, SMOKE_CASES, suites, about, results)
    except DeviceError as error:
        suites.append(_device_failed(error))
        raise
    finally:
        if junit is not None:
            _write(junit, suites, about)


def _run(
    choice: DeviceChoice, cases: tuple[SmokeCase, ...], suites: list[Suite], about: dict[str, str], results: Path | None
) -> int:
    """Run `cases`, adding to `suites` and `about` as they go; the exit status."""
    from spgraph_bench.report.junit import Suite
    from spgraph_bench.results.store import RecordFile
    from spgraph_bench.runner.session import Session
    from spgraph_bench.runner.smoke import run_case, smoke_variants

    started = time.monotonic()
    chosen = [v for case in cases for v in smoke_variants(case)]
    with ExitStack() as stack:
        session = stack.enter_context(Session(choice.name, variants=chosen))
        file = stack.enter_context(RecordFile(results, "smoke", choice.name)) if results is not None else None
        progress = stack.enter_context(show_progress())
        info = session.info()
        about |= {"device": info.name, "driver": str(info.driver or ""), "toolkit": str(info.toolkit or "")}
        for case in cases:
            records: list[Record] = []
            progress(case.title)
            begun = time.monotonic()

            def keep(record: Record, into: list[Record] = records) -> None:
                into.append(record)
                if file is not None:
                    file.append(record)

            wrong: list[str] = []
            try:
                wrong = run_case(session, case, keep)
            finally:
                suites.append(Suite(case.title, tuple(records), tuple(wrong), time.monotonic() - begun))
            _say(suites[-1])
        session.release()
    return _conclude(suites, info.name, time.monotonic() - started)


def _bad(suite: Suite) -> list[str]:
    """What failed in `suite`, a line each."""
    return [
        *(f"{r.variant}: {r.status}: {r.reason}" for r in suite.records if r.status in ("wrong", "failed")),
        *suite.failures,
    ]


def _say(suite: Suite) -> None:
    ok, skipped = (sum(r.status == status for r in suite.records) for status in ("ok", "skipped"))
    bad = _bad(suite)
    counts = f"{ok} ok" + (f", {skipped} skipped" if skipped else "") + (f", {len(bad)} failed" if bad else "")
    out(f"{'FAILED' if bad else 'ok':6}  {suite.name}: {counts} ({suite.seconds:.1f} s)")
    for line in bad:
        out(f"        {' '.join(line.splitlines())}")


def _conclude(suites: list[Suite], device: str, seconds: float) -> int:
    records = [r for suite in suites for r in suite.records]
    ok, skipped = (sum(r.status == status for r in records) for status in ("ok", "skipped"))
    bad = sum(len(_bad(suite)) for suite in suites)
    verdict = "FAILED" if bad else "passed"
    out(f"smoke {verdict} on {device}: {ok} ok, {skipped} skipped, {bad} failed in {seconds:.0f} s")
    return 1 if bad else 0


def _device_failed(error: DeviceError) -> Suite:
    from spgraph_bench.report.junit import Suite

    return Suite("device", (), (" ".join(str(error).split()),))


def _write(path: Path, suites: list[Suite], about: dict[str, str]) -> None:
    from spgraph_bench import __version__
    from spgraph_bench.report.junit import junit_xml
    from spgraph_bench.writers import whole_file

    with whole_file(path, overwrite=True) as stream:
        stream.write(junit_xml(suites, {"spgraph": __version__, **{k: v for k, v in about.items() if v}}))
