"""Measures blocks: a device held by one worker, and the matrices read last. Whatever happens to a block is records.

A local sweep has one station; of a cluster each worker process has its own.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.errors import DeviceError, InputError, SpgraphError, TooLargeError, UsageError
from spgraph_bench.matrix import Matrix
from spgraph_bench.memory import available_memory
from spgraph_bench.problems import get_problem
from spgraph_bench.results.describe import describe_device, describe_environment, describe_matrix
from spgraph_bench.results.record import Record, Status
from spgraph_bench.runner.assembly import generated_matrix
from spgraph_bench.runner.choosing import vertex_numbers
from spgraph_bench.runner.plan import Cell, planned_cells
from spgraph_bench.runner.run import Progress, run
from spgraph_bench.runner.session import Session
from spgraph_bench.runner.settings import Settings
from spgraph_bench.sweep.inputs import Input
from spgraph_bench.sweep.plan import Block

__all__ = ["OnCell", "Shelf", "Station", "unmeasured"]

OnCell = Callable[[Cell, Record], None]
"""Gets each record with its cell, as the cell ends."""

_SHARE = 4
"""Matrices that are kept take at most one part in so many of the memory that is available."""


class Shelf:
    """Matrices that were read, kept while memory lasts: the ones used last."""

    def __init__(self) -> None:
        self._matrices: OrderedDict[Input, Matrix] = OrderedDict()

    def get(self, wanted: Input, progress: Callable[[str], None]) -> Matrix:
        """The matrix of `wanted`. Raises what reading raises."""
        if wanted in self._matrices:
            self._matrices.move_to_end(wanted)
            return self._matrices[wanted]
        self._make_room(wanted)
        matrix = wanted.load(lambda doing, fraction: progress(f"{wanted.name}: {doing}"))
        self._matrices[wanted] = matrix
        self._make_room(None)
        return matrix

    def _make_room(self, coming: Input | None) -> None:
        """Drop what was not used for longest: all but the newest where memory is short."""
        room = available_memory() // _SHARE
        while self._matrices and (
            sum(map(_bytes, self._matrices.values())) > room and (coming is not None or len(self._matrices) > 1)
        ):
            self._matrices.popitem(last=False)

    def clear(self) -> None:
        """Drop all matrices."""
        self._matrices.clear()


def _bytes(matrix: Matrix) -> int:
    csr = matrix.csr
    return csr.row_ptr.nbytes + csr.col_idx.nbytes + (0 if csr.values is None else csr.values.nbytes)


class Station:
    """A device with its worker process, which stays for all blocks, and the matrices that were read.

    Parameters
    ----------
    device : "host", "cuda" or "cuda:N".
    session : further arguments of ``Session``: ``in_process``, ``watchdog``, ``gate``, ``seed``, ``limits_of``.
    """

    def __init__(self, device: str, **session: Any) -> None:
        self.device = device
        self._session = Session(device, **session)
        self._shelf = Shelf()
        self._worked = False
        """Whether the device was usable once."""
        self._failed = 0
        """Blocks in turn for which it was not."""

    def info(self) -> DeviceInfo:
        """What the device is. Raises DeviceError where it cannot be used."""
        return self._session.info()

    def missing(self, problem: str, names: Collection[str]) -> dict[str, str]:
        """Variants that cannot run on this device at all, with the reason."""
        reasons: dict[str, str] = self._session.worker().call("missing", problem, list(names))
        return reasons

    def matrix(self, block: Block, progress: Progress = lambda text: None) -> Matrix:
        """The matrix of `block`. Raises what reading it raises."""
        if block.input.kind == "options":
            return generated_matrix(get_problem(block.problem), block.options)
        matrix = self._shelf.get(block.input, progress)
        return matrix.counted_from_0() if block.ids == "0" else matrix

    def measure(self, block: Block, run_id: str, on_cell: OnCell, progress: Progress = lambda text: None) -> None:
        """Measure the cells of `block`; each gets one record, whatever happens.

        Raises DeviceError where the device cannot be used from the beginning, or twice in turn. On KeyboardInterrupt
        cells that were not finished get no record.
        """
        left = {cell.key: cell for cell in block.cells}
        not_kept: list[BaseException] = []

        def on_record(record: Record) -> None:
            cell = Cell(record.variant, record.dtype, record.reorder)
            if cell.key in left and not _broken_off(record):
                del left[cell.key]
                try:
                    on_cell(cell, record)
                except BaseException as error:  # a full disk, say: it must not look like trouble with the block
                    not_kept.append(error)
                    raise

        matrix: Matrix | None = None
        try:
            progress(f"{block.input.name}: reading")
            matrix = self.matrix(block, progress)
            self._run(block, matrix, run_id, on_record, progress)
            self._worked, self._failed = True, 0
            status, reason = "failed", "it was not measured"
        except DeviceError as error:
            self._session.drop_worker()
            self._failed += 1
            if not self._worked or self._failed > 1:
                raise
            status, reason = "failed", str(error.cause)
        except TooLargeError as error:
            status, reason = "skipped", _message(error)
        except SpgraphError as error:
            # A file that cannot be read is a failure; that a problem cannot be asked of a matrix is not.
            refused = matrix is not None and isinstance(error, InputError | UsageError)
            status, reason = "skipped" if refused else "failed", _message(error)
        except MemoryError as error:
            status, reason = "skipped", f"not enough memory: {error or 'an allocation failed'}"
        except Exception as error:  # of one block: the others go on
            self._session.drop_worker()
            status, reason = "failed", f"internal error: {type(error).__name__}: {error}"
        if not_kept:
            raise not_kept[0]
        for cell in list(left.values()):
            on_record(unmeasured(block, cell, self._device(), status, reason, run_id, matrix))  # type: ignore[arg-type]

    def _run(
        self, block: Block, matrix: Matrix, run_id: str, on_record: Callable[[Record], None], progress: Progress
    ) -> None:
        settings = Settings(
            dtypes=block.dtypes,
            params=dict(block.params),
            seed=block.seed,
            force_format=block.force_format,
            time_limit_s=block.time_limit,
            min_samples=block.min_samples,
            warmups=block.warmup,
            baseline_seconds=block.baseline_seconds,
            offsets=block.offsets,
            options=vertex_numbers(block.problem, block.options, matrix),
            reorder=block.orders,
            pending_launches=block.limits.get("pending_launches"),
            heap_bytes=block.limits.get("malloc_heap_bytes"),
        )
        wanted = {cell.key for cell in block.cells}
        everything = planned_cells(block.variants, block.dtypes, block.orders)
        done = {cell.key for cell in everything} - wanted
        title = block.title
        run(
            self._session,
            matrix,
            block.problem,
            block.variants,
            settings,
            on_record,
            lambda text: progress(f"{title}: {text}"),
            done=done,
            run_id=run_id,
        )

    def _device(self) -> DeviceInfo:
        """What the device is, as far as that can be told now."""
        with contextlib.suppress(SpgraphError):
            return self._session.info()
        kind = "host" if self.device == "host" else "cuda"
        return DeviceInfo(kind, self.device, "", 0, 0, 0)  # type: ignore[arg-type]

    def close(self) -> None:
        """Give the device back."""
        self._shelf.clear()
        self._session.close()

    def __enter__(self) -> Station:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shelf.clear()
        self._session.__exit__(kind, error, trace)


def _message(error: SpgraphError) -> str:
    return f"{error.place}: {error.cause}" if error.place else error.cause


def _broken_off(record: Record) -> bool:
    """Whether an interrupt kept the cell from being finished: a sweep that goes on measures it again."""
    return (record.status == "skipped" and record.reason.startswith("interrupted")) or any(
        samples.stopped == "interrupted" for samples in record.samples
    )


def unmeasured(
    block: Block, cell: Cell, info: DeviceInfo, status: Status, reason: str, run_id: str, matrix: Matrix | None = None
) -> Record:
    """The record of a cell that could not be tried, for a reason that is not its variant's own."""
    problem = get_problem(block.problem)
    variant = next(v for v in block.variants if v.name == cell.variant)
    return Record(
        problem=block.problem,
        variant=variant.name,
        format=variant.format,
        library=variant.library,
        where=variant.where,
        dtype=cell.dtype,
        matrix=describe_matrix(matrix) if matrix is not None else _unread(block.input),
        device=describe_device(info),
        environment=describe_environment(info.toolkit),
        run=run_id,
        status=status,
        reason=reason,
        params=dict(block.params),
        reorder=cell.reorder,
        options=dict(block.options),
        seed=block.seed,
        rate_unit=problem.rate_unit,
    )


def _unread(given: Input) -> dict[str, Any]:
    """What is known of a matrix that could not be read."""
    return {
        "name": given.name,
        "sha256": "",
        "entries_sha256": "",
        "rows": 0,
        "cols": 0,
        "nnz": 0,
        "symmetry": "general",
        "weighted": True,
        "source": {"kind": "file" if given.kind == "collection" else given.kind, "text": given.text, "format": ""},
        "policies": {},
        "said": [],
        "findings": [],
    }
