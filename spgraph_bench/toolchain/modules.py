"""The disk cache of compiled modules, shared by both devices and the readers.

An entry is ``<key>.<suffix>`` with ``<key>.json`` beside it (sha256 of the artifact, compiler log, time to
compile). It appears by ``os.replace`` only, is checked against its sha256 whenever it is taken, and is built
under a lock, so that any number of processes may share the folder. Files are the user's alone (mode 0600 in
folders of 0700); those of others are refused (see :mod:`spgraph_bench.paths`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from spgraph_bench.cores import usable_cores
from spgraph_bench.errors import CompileError, SpgraphError
from spgraph_bench.paths import cache_dir, cache_lock, private_folder, trusted
from spgraph_bench.toolchain.sources import digest, kernel_tokens

__all__ = ["Compiled", "Request", "build", "build_all", "cached", "compile_ms", "compiled", "sweep"]


@dataclass(frozen=True)
class Compiled:
    """How a module was compiled."""

    source: str
    """The ``.cu`` file below ``cuda/``; of a file of the user's own its name alone."""
    tokens: str
    """Hash of the tokens of the source with all that it includes: comments and layout do not count."""
    options: tuple[str, ...]
    """The compiler's options, ``-D`` included; paths omitted."""
    ms: float
    """How long it took, whenever that was: it is kept with the module in the disk cache."""


@dataclass(frozen=True)
class Request:
    """Something to compile, or to take from the cache.

    Parameters
    ----------
    parts : all that decides what comes out (sources' digest, options, compiler identity, architecture, ...).
    make : compiles to the path it is given and returns the compiler's log; raises CompileError.
    suffix : of the artifact, with its dot (".so", ".cubin").
    label : what progress shows, the source ("spmv/csr_vector.cu").
    """

    parts: tuple[bytes | str, ...]
    make: Callable[[Path], str | None] = field(compare=False)
    suffix: str
    label: str = ""
    options: tuple[str, ...] = field(default=(), compare=False)
    """The compiler's options for the record, ``-D`` included; no paths."""

    @property
    def key(self) -> str:
        """Its name in the cache: a sha256, in hexadecimal, of all that the result depends on."""
        return digest(*self.parts, self.suffix)


def _paths(request: Request) -> tuple[Path, Path]:
    key = request.key
    folder = private_folder(cache_dir("modules") / key[:2])
    return folder / f"{key}{request.suffix}", folder / f"{key}.json"


def _lock_name(folder: str) -> str:
    return f"modules-{folder}"


def _valid(artifact: Path, note: Path) -> bool:
    """Whether the entry is there and whole. Raises CacheError where it is not this user's own."""
    if not (trusted(artifact) and trusted(note)):
        return False
    try:
        return bool(json.loads(note.read_bytes())["sha256"] == hashlib.sha256(artifact.read_bytes()).hexdigest())
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


_swept: set[Path] = set()


def sweep() -> None:
    """Remove what processes that were killed while compiling left in the cache: once a process, at first use.

    A folder ``building-*`` or a lock beside entries is left over where the lock of its folder can be had.
    """
    with contextlib.suppress(OSError):
        root = cache_dir("modules")
        if root in _swept:
            return
        _swept.add(root)
        for folder in root.iterdir():
            left = [*folder.glob("building-*"), *folder.glob("*.lock")] if folder.is_dir() else []
            if not left:
                continue
            with cache_lock(_lock_name(folder.name), wait=False) as ours:
                for path in left if ours else ():
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink(missing_ok=True)


def cached(request: Request) -> Path | None:
    """The artifact of `request` if it is in the cache and whole, else None."""
    try:
        artifact, note = _paths(request)
    except OSError:  # there is no cache: the build will report it
        return None
    return artifact if _valid(artifact, note) else None


def compile_ms(artifact: Path) -> float:
    """How long `artifact` took to compile, on whatever machine that was; 0 where the cache does not say."""
    try:
        return float(json.loads(artifact.with_suffix(".json").read_bytes())["ms"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


@functools.lru_cache(maxsize=256)
def _tokens_of(source: str, key: str) -> str:
    return kernel_tokens(source)


def compiled(request: Request, artifact: Path) -> Compiled:
    """What a record keeps of `artifact`, which `request` built from the source that it is labelled with."""
    name = Path(request.label).name if os.path.isabs(request.label) else request.label
    return Compiled(name, _tokens_of(request.label, request.key), request.options, compile_ms(artifact))


def build(request: Request) -> Path:
    """The artifact of `request`: from the cache, or compiled now. Safe for threads and processes.

    Raises what ``request.make`` raises, CompileError when the cache folder cannot be written, or CacheError
    when it is not this user's own.
    """
    try:
        sweep()
        artifact, note = _paths(request)
        if _valid(artifact, note):
            return artifact
        with cache_lock(_lock_name(artifact.parent.name)):
            if _valid(artifact, note):
                return artifact
            with tempfile.TemporaryDirectory(prefix="building-", dir=artifact.parent) as folder:
                fresh = Path(folder) / artifact.name
                start = time.perf_counter()
                log = request.make(fresh) or ""
                spent = round((time.perf_counter() - start) * 1e3, 1)
                if not fresh.exists():
                    raise CompileError(
                        f"{request.label}: the compiler succeeded, but wrote nothing",
                        remedy="is it a compiler? CXX names that for C++, CUDA_HOME and PATH that for nvcc",
                    )
                sha = hashlib.sha256(fresh.read_bytes()).hexdigest()
                draft = Path(folder) / note.name
                draft.write_text(json.dumps({"sha256": sha, "label": request.label, "ms": spent, "log": log}))
                draft.chmod(0o600)
                fresh.chmod(0o600)
                os.replace(draft, note)
                os.replace(fresh, artifact)
        return artifact
    except OSError as error:
        raise CompileError(
            f"cannot write the cache of compiled kernels: {error}",
            remedy="set SPGRAPH_CACHE to a folder you can write to",
        ) from error


def build_all(
    requests: Iterable[Request], jobs: int | None = None, progress: Callable[[int, int, str], None] | None = None
) -> list[Path | SpgraphError]:
    """Build many requests in parallel; results are in the order of the requests.

    Parameters
    ----------
    jobs : compilers at a time; the number of usable cores by default.
    progress : called in this thread with (done, total, label) when something was compiled or failed; total
        counts only what was not in the cache, so a warm start calls it never.

    A request that fails gives its error in place of a path; equal requests are built once.
    """
    with contextlib.suppress(OSError):
        sweep()
    wanted = list(requests)
    results: dict[str, Path | SpgraphError] = {}
    missing: dict[str, Request] = {}
    for request in wanted:
        if request.key in results or request.key in missing:
            continue
        if (hit := cached(request)) is not None:
            results[request.key] = hit
        else:
            missing[request.key] = request
    if missing:
        pool = ThreadPoolExecutor(min(len(missing), jobs or usable_cores()))
        try:
            futures = {pool.submit(build, request): request for request in missing.values()}
            for done, future in enumerate(as_completed(futures), 1):
                request = futures[future]
                try:
                    results[request.key] = future.result()
                except SpgraphError as error:
                    results[request.key] = error
                if progress:
                    progress(done, len(missing), request.label)
        finally:  # on Ctrl-C the compilers get the signal themselves; what waits is not started
            pool.shutdown(cancel_futures=True)
    return [results[request.key] for request in wanted]
