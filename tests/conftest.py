"""Fixtures shared by all tests."""

from __future__ import annotations

import functools
import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_turn import gpu_turn

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import DeviceError

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts background jobs with Ctrl-C ignored, and so would be the processes that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOT = Path(__file__).resolve().parent.parent

for _site in ("SUITESPARSE", "SNAP", "KONECT"):  # no test asks a server that is not its own
    os.environ[f"SPGRAPH_{_site}_URL"] = "http://127.0.0.1:9"


os.environ["SPGRAPH_RESULTS"] = "results"  # of the folder that a test runs in, not the user's


def _matrices_dir() -> Path | None:
    # Named by the user, in the checkout, or a folder called matrices/ one level below a neighbour.
    named = os.environ.get("SPGRAPH_MATRICES")
    places = [Path(named)] if named else [_ROOT / "matrices", *sorted(_ROOT.parent.glob("*/matrices"))]
    return next((p for p in places if (p / "west0067.mtx").is_file()), None)


@pytest.fixture(scope="session")
def matrices_dir() -> Path:
    """A folder of real input files; tests that use it are skipped where there is none."""
    folder = _matrices_dir()
    if folder is None:
        pytest.skip("no folder of real matrices (set SPGRAPH_MATRICES)")
    return folder


@functools.cache
def _gpus() -> int:
    from spgraph_bench.device.probe import find_driver

    driver = find_driver()
    return len(driver.gpus) if driver else 0


def _never_runs(item: pytest.Item) -> bool:
    """Whether it is of the host device and of a variant that only a GPU can run: cuSPARSE, CUDA graphs."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    if params.get("device") != "host":
        return False
    from spgraph_bench.variants import Variant
    from spgraph_bench.variants.grids import needs_graphs

    variants = [value for value in params.values() if isinstance(value, Variant)]
    return any(v.library == "cuSPARSE" or v.missing is needs_graphs for v in variants)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu_alone") and not item.get_closest_marker("gpu"):
            raise pytest.UsageError(f"{item.name} is marked gpu_alone, but not gpu")
    if omitted := [item for item in items if _never_runs(item)]:
        config.hook.pytest_deselected(items=omitted)
        left = set(omitted)
        items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    # 13,000 tests are millions of objects, which each collection would look through: 0.3 s in every run of a problem.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: waiting does not count for a test's time limit
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """GPU tests of several processes (``-n 6``) run together, those marked gpu_alone by themselves."""
    if not (item.get_closest_marker("gpu") and _gpus()):
        return (yield)
    folder = Path(tempfile.gettempdir()) / f"spgraph-tests-{os.getuid()}"
    with gpu_turn(folder, alone=item.get_closest_marker("gpu_alone") is not None):
        return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not _gpus():
        pytest.skip("no NVIDIA GPU")


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    # pytest imports readline, which puts COLUMNS=80 into the environment of pytest-xdist's workers.
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="module", params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Each device in turn; the GPU's tests are marked `gpu`, and skipped where there is none."""
    try:
        opened = open_device(request.param)
    except DeviceError as cause:
        if request.param == "host":
            raise
        pytest.skip(str(cause))
    yield opened
    opened.close()
