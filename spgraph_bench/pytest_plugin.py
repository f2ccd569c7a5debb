"""A fixture for pytest: results must not be slower than a baseline that is kept in a file.

Installed packages bring it by themselves (the entry point ``pytest11``); without an installation name it:
``pytest -p spgraph_bench.pytest_plugin``. Nothing heavy is imported before a test uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from spgraph_bench.results.comparison import Comparison
    from spgraph_bench.results.record import Record

__all__ = ["spgraph_no_regression"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """--spgraph-baselines and --spgraph-update."""
    group = parser.getgroup("spgraph", "baselines of spgraph")
    group.addoption(
        "--spgraph-baselines",
        metavar="DIR",
        help="Folder of the baselines [default: the folder baselines/ beside the test's file].",
    )
    group.addoption("--spgraph-update", action="store_true", help="Keep what is measured now as the baselines.")


@pytest.fixture
def spgraph_no_regression(request: pytest.FixtureRequest) -> Callable[..., Comparison | None]:
    """A function that fails the test where results are slower than their baseline, or wrong where they were right.

    ``spgraph_no_regression(results, name=None, *, threshold=0.03, cache="cold", strict=False, allow=())``

    Parameters
    ----------
    results : ``Results`` of :func:`spgraph_bench.bench`, or any records.
    name : of the baseline: the file ``NAME.jsonl``; None: the test's own name.
    threshold, cache, allow : as :meth:`spgraph_bench.Results.compare` has them.
    strict : an unsure cell fails, too, and one that only the baseline has.

    With ``--spgraph-update`` the results become the baseline, None is returned and nothing can fail but results that
    are wrong; otherwise the comparison is returned. The test also fails where there is no baseline, where the two
    cannot be compared (another GPU), and where no cell was timed: it never passes unseen.
    """
    config = request.config
    folder = config.getoption("--spgraph-baselines")
    place = Path(folder) if folder else request.path.parent / "baselines"

    def check(
        results: Iterable[Record],
        name: str | None = None,
        *,
        threshold: float = 0.03,
        cache: Any = "cold",
        strict: bool = False,
        allow: Iterable[str] = (),
    ) -> Comparison | None:
        __tracebackhide__ = True
        path = place / f"{_file_name(name or request.node.name)}.jsonl"
        return _check(list(results), path, bool(config.getoption("--spgraph-update")), threshold, cache, strict, allow)

    return check


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.+=-]+", "-", text).strip("-.") or "baseline"


def _check(
    records: list[Record], path: Path, update: bool, threshold: float, cache: Any, strict: bool, allow: Iterable[str]
) -> Comparison | None:
    from spgraph_bench.api import Results
    from spgraph_bench.errors import SpgraphError
    from spgraph_bench.report.comparison import comparison_table
    from spgraph_bench.results.comparison import regressed

    __tracebackhide__ = True
    results = Results(records)
    wrong = [f"{r.variant} ({r.dtype}): {r.status}, {r.reason or r.check.get('message', '')}" for r in results]
    wrong = [text for text, r in zip(wrong, results, strict=True) if r.status in ("wrong", "failed")]
    if not any(r.status == "ok" and r.sampled(cache) is not None for r in results):
        pytest.fail("no cell was timed: kernels are timed on a GPU only, CPU libraries everywhere", pytrace=False)
    try:
        if update:
            if wrong:
                pytest.fail("not kept as a baseline:\n" + "\n".join(wrong), pytrace=False)
            path.parent.mkdir(parents=True, exist_ok=True)
            results.save(path, overwrite=True)
            return None
        if not path.is_file():
            pytest.fail(f"there is no baseline {path}: make it with pytest --spgraph-update", pytrace=False)
        comparison = results.compare(Results.load(path), threshold=threshold, cache=cache, allow=allow)
    except (SpgraphError, OSError) as error:
        pytest.fail(f"{path}: {error}", pytrace=False)
    missing = [f"{r.variant} ({r.dtype}) is in the baseline only" for r in comparison.only_base] if strict else []
    if wrong or missing or regressed(comparison, strict=strict):
        table = comparison_table(comparison, 100, False)
        pytest.fail("\n".join([f"slower than {path}", table, *wrong, *missing]), pytrace=False)
    return comparison
