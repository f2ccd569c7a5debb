"""cuSPARSE's SpMVOp, without cuSPARSE: a library of the same functions, on the host's memory, takes its place."""

from __future__ import annotations

import ctypes
import enum
import gc
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from battery import random_rows

from spgraph_bench.device import host_compiler
from spgraph_bench.device.host import HostDevice
from spgraph_bench.errors import LaunchError, SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.variants import cusparse_library, get_variant
from spgraph_bench.variants.spmv import cusparse_op

SOURCE = Path(__file__).parent / "kernels" / "fake_cusparse.c"
A = random_rows([3, 0, 70, 1, 5], 80)
X = np.random.default_rng(2).standard_normal(80)

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or host_compiler.available() is not None, reason="no C compiler, or no host device"
)


class _Error(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(_Status(status).name)
        self.status = status


class _Status(enum.IntEnum):
    INVALID_VALUE = 3
    ARCH_MISMATCH = 4
    MATRIX_TYPE_NOT_SUPPORTED = 8
    NOT_SUPPORTED = 10


class _Device(HostDevice):
    """The host device, as if it were a GPU with a stream."""

    kind: Literal["cuda"] = "cuda"  # type: ignore[assignment]
    stream = SimpleNamespace(handle=7)


class _Bindings(ModuleType):
    """What of nvmath's bindings SpMVOp needs, of the library at `path`."""

    Status = _Status
    Operation = enum.IntEnum("Operation", {"NON_TRANSPOSE": 0})
    IndexType = enum.IntEnum("IndexType", {"INDEX_32I": 2, "INDEX_64I": 3})
    IndexBase = enum.IntEnum("IndexBase", {"ZERO": 0})

    def __init__(self, path: Path, version: tuple[int, int, int]) -> None:
        super().__init__("cusparse")
        self.cuSPARSEError = _Error
        self.library, self._version = ctypes.CDLL(str(path)), version
        for name in ("fake_matrix", "fake_vector"):
            getattr(self.library, name).restype = ctypes.c_void_p

    def get_property(self, part: int) -> int:
        return self._version[part]

    def create(self) -> int:
        return 4711

    def set_stream(self, made: int, stream: int) -> None:
        assert (made, stream) == (4711, 7)

    def create_csr(self, rows: int, cols: int, nnz: int, *rest: int) -> int:
        *places, offsets, _, _, kind = rest
        sizes = map(ctypes.c_int64, (rows, cols, nnz))
        return int(self.library.fake_matrix(*sizes, *map(ctypes.c_void_p, places), int(offsets == 3), kind))

    def create_dn_vec(self, size: int, values: int, kind: int) -> int:
        return int(self.library.fake_vector(ctypes.c_int64(size), ctypes.c_void_p(values), kind))

    def destroy_sp_mat(self, made: int) -> None:
        self.library.fake_destroy(ctypes.c_void_p(made))

    destroy_dn_vec = destroy_sp_mat

    @property
    def alive(self) -> int:
        return ctypes.c_int.in_dll(self.library, "alive").value

    @property
    def algorithm(self) -> int:
        return ctypes.c_int.in_dll(self.library, "last_algorithm").value


def _bindings(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], source: Path = SOURCE
) -> _Bindings:
    """Bindings of a library of `version`, as the project imports them."""
    path = folder / f"libcusparse.so.{'.'.join(map(str, version))}"
    named = ["-DSPG_ALGORITHM"] * (version >= (12, 8, 0))
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", *named, "-o", path, source], check=True)
    made = _Bindings(path, version)
    package = ModuleType("nvmath.bindings")
    package.cusparse = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nvmath", ModuleType("nvmath"))
    monkeypatch.setitem(sys.modules, "nvmath.bindings", package)
    monkeypatch.setitem(sys.modules, "nvmath.bindings.cusparse", made)
    # Of all that this process has loaded, the one that these bindings have.
    lines = Path("/proc/self/maps").read_text().splitlines()
    own = [line for line in lines if "libcusparse.so" not in line or line.endswith(str(path))]
    assert len(own) > len([line for line in lines if "libcusparse.so" not in line])
    monkeypatch.setattr(cusparse_op, "_maps", lambda: own)
    cusparse_op._library.cache_clear()
    cusparse_library.handle.cache_clear()
    return made


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    cusparse_op._library.cache_clear()
    cusparse_library.handle.cache_clear()


def _prepared(name: str, dtype: str = "float32", offsets: str = "int32") -> Prepared:
    kind = np.dtype(dtype)
    packed = get_format("csr").pack(A, kind, np.dtype(offsets))
    return prepare(_Device(), get_variant("spmv", name), packed, {"x": X.astype(kind)}, {"y": ((A.rows,), kind)})


@pytest.mark.parametrize("version", [(12, 7, 3), (12, 8, 0), (13, 0, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_product_by_a_plan(
    version: tuple[int, int, int], dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bindings = _bindings(tmp_path, monkeypatch, version)
    assert get_variant("spmv", "cusparse-op-2").missing(_Device()) is None  # type: ignore[misc]
    ready = _prepared("cusparse-op-2", dtype)
    assert bindings.algorithm == (2 if version >= (12, 8, 0) else 0)
    ready.launch.reset()
    ready.launch.run()
    dense = np.zeros((A.rows, A.cols))
    dense[np.repeat(np.arange(A.rows), A.row_lengths()), A.col_idx] = A.values
    np.testing.assert_allclose(ready.launch.output(), dense @ X, rtol=1e-4 if dtype == "float32" else 1e-12)
    ready.write_input("x", (2 * X).astype(dtype))
    ready.launch.run()
    np.testing.assert_allclose(ready.launch.output(), dense @ (2 * X), rtol=1e-4 if dtype == "float32" else 1e-12)
    # Workspace and the time of the plan are the matrix's setup.
    assert ready.launch.extra_bytes == 1000 + A.rows
    assert ready.launch.preprocess_ms > 0
    assert bindings.alive == 5
    del ready
    gc.collect()
    assert bindings.alive == 0


def test_what_the_library_has_not_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bindings = _bindings(tmp_path, monkeypatch, (12, 7, 3))
    with pytest.raises(SkipError, match=r"SpMVOp has no ALG1 before cuSPARSE 12\.8, this is 12\.7\.3"):
        _prepared("cusparse-op-1")
    with pytest.raises(SkipError, match="cuSPARSE refuses it: NOT_SUPPORTED"):
        _prepared("cusparse-op-2", offsets="int64")
    bindings.Operation = enum.IntEnum("Operation", {"NON_TRANSPOSE": 1})  # type: ignore[misc]
    with pytest.raises(LaunchError, match="cuSPARSE: INVALID_VALUE"):
        _prepared("cusparse-op-2")
    gc.collect()
    assert bindings.alive == 0


def test_an_older_library_is_named_with_the_one_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "older.c"
    source.write_text("void* fake_matrix(void) { return 0; }\nvoid* fake_vector(void) { return 0; }\n")
    _bindings(tmp_path, monkeypatch, (12, 6, 3), source)
    missing: Any = get_variant("spmv", "cusparse-op-1").missing
    assert missing(_Device()) == "cuSPARSE 12.6.3 has no SpMVOp with a workspace: that of CUDA 13.1 Update 1 has"
    assert missing(HostDevice()) == "cuSPARSE runs on a GPU only"
    monkeypatch.setattr(cusparse_op, "_maps", list)
    cusparse_op._library.cache_clear()
    assert missing(_Device()) == "no SpMVOp: libcusparse.so is not loaded"
