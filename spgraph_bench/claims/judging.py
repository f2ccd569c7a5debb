"""From claims to verdicts: runs made on a device, or records that are there already."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spgraph_bench import api, recipes
from spgraph_bench.claims.base import Claim, Evidence, NotMeasuredError, Run, Verdict
from spgraph_bench.errors import InputError, NothingRanError, SpgraphError
from spgraph_bench.results.record import Record
from spgraph_bench.toolchain.sources import kernel_tokens
from spgraph_bench.variants import select

__all__ = ["Judged", "judge", "judge_records", "measure"]


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict, and the device that it is about."""

    claim: Claim
    verdict: Verdict
    device: str


def _changed(records: Iterable[Record]) -> tuple[str, ...]:
    """Kernels of `records` whose code is another one now, or of which the record does not say which it was."""
    names: dict[str, None] = {}
    for record in records:
        if record.library or record.where != "gpu":
            continue
        if not record.modules:
            names[record.variant] = None
        for module in record.modules:
            try:
                now = kernel_tokens(str(module["source"]))
            except SpgraphError:  # the file is gone
                now = ""
            if now != module["tokens"]:
                names[str(module["source"])] = None
    return tuple(names)


def judge(claim: Claim, runs: Sequence[Sequence[Record]]) -> Verdict:
    """The rule of `claim` on these records, a sequence for each of its runs."""
    evidence = Evidence(runs)
    if evidence.emulated and not claim.counted:
        return Verdict("needs a GPU", "it is about times, which emulated kernels do not have")
    try:
        verdict = claim.rule(evidence)
    except NotMeasuredError as error:
        return Verdict("not measured", str(error))
    return Verdict(verdict.status, verdict.why, verdict.figures, _changed(evidence.used))


def _device_name(records: Iterable[Record]) -> str:
    return next((str(r.device.get("name", "")) for r in records), "")


def measure(
    claims: Sequence[Claim],
    device: str,
    *,
    time_limit: float = 0.25,
    in_process: bool = False,
    on_record: Callable[[Record], None] = lambda record: None,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Judged]:
    """Run what `claims` need on `device` ("host", "cuda", "cuda:1") and judge them, in their order, one after another.

    A run that several claims need is made once. On the host device claims about times are not run. An input that does
    not fit in memory is a reason of "not measured".

    Raises DeviceError where the device cannot be used; what goes wrong with a variant is a record.
    """
    emulated = device == "host"
    done: dict[Any, list[Record]] = {}
    failed: dict[Any, str] = {}
    for claim in claims:
        if emulated and not claim.counted:
            yield Judged(claim, Verdict("needs a GPU", "it is about times, which the host device has not"), device)
            continue
        runs: list[list[Record]] = []
        reasons: list[str] = []
        for run in claim.runs:
            own = (_recipe(run, emulated), tuple(_options(run, emulated).items()))
            key = (run.problem, run.variants, run.dtype, run.force_format, *own)
            if key not in done:
                progress(f"{claim.name}: {run.problem} {_recipe(run, emulated) or ''}")
                try:
                    done[key] = _made(run, device, emulated, time_limit, in_process, on_record)
                except InputError as error:
                    done[key], failed[key] = [], error.cause
            runs.append(done[key])
            if key in failed:
                reasons.append(failed[key])
        verdict = judge(claim, runs)
        if verdict.status == "not measured" and reasons:
            verdict = Verdict("not measured", "; ".join(reasons))
        yield Judged(claim, verdict, _device_name(r for records in runs for r in records))


def _recipe(run: Run, emulated: bool) -> str | None:
    return (run.small or run.input) if emulated else run.input


def _options(run: Run, emulated: bool) -> Mapping[str, Any]:
    return run.small_options if emulated else run.options


def _made(
    run: Run, device: str, emulated: bool, time_limit: float, in_process: bool, on_record: Callable[[Record], None]
) -> list[Record]:
    names = [glob for glob in run.variants if select(run.problem, [glob])]
    try:
        return list(
            api.bench(
                _recipe(run, emulated),
                run.problem,
                variants=names,
                dtypes=run.dtype or (),
                device=device,
                options=_options(run, emulated),
                force_format=run.force_format,
                time_limit=time_limit,
                in_process=in_process,
                on_record=on_record,
            )
        )
    except NothingRanError:
        return []


def judge_records(claims: Sequence[Claim], records: Sequence[Record]) -> list[Judged]:
    """Verdicts from records that were made before: those of the inputs, variants and types that the claims name.

    A missing figure is named ("not measured"). Options have to agree where the claim sets them and the record has them.
    """
    judged = []
    for claim in claims:
        runs = [_records_of(run, records) for run in claim.runs]
        if not any(runs):
            verdict = Verdict("not measured", "there are no records of its runs")
        else:
            verdict = judge(claim, runs)
        judged.append(Judged(claim, verdict, _device_name(r for run_records in runs for r in run_records)))
    return judged


def _records_of(run: Run, records: Sequence[Record]) -> list[Record]:
    """Records of `run` on one input, of one GPU and of one state of the code: the most that there are."""
    fitting: dict[tuple[str, ...], list[Record]] = {}
    texts = {_canonical(text) for text in (run.input, run.small) if text}
    for r in records:
        if r.problem != run.problem or not any(fnmatch.fnmatchcase(r.variant, glob) for glob in run.variants):
            continue
        if (run.dtype is not None and r.dtype != run.dtype) or r.reorder != "none":
            continue
        source = r.matrix.get("source") or {}
        if texts and source.get("text") not in texts:
            continue
        if any(r.options.get(name, value) != value for name, value in run.options.items()):
            continue
        own = (r.matrix.get("sha256"), r.device.get("uuid"), r.environment.get("code"), sorted(r.options.items()))
        fitting.setdefault(tuple(map(str, own)), []).append(r)
    return max(fitting.values(), key=lambda cells: sum(r.status == "ok" for r in cells), default=[])


def _canonical(text: str) -> str:
    """The text of a recipe as records have it: all parameters, in their order."""
    recipe, values = recipes.parse(text)
    return recipe.text(values)
