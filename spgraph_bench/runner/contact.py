"""The worker that has the task; where one was ended, the next call goes to another."""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType
from typing import Any

from spgraph_bench.errors import SpgraphError
from spgraph_bench.runner.payload import Payload
from spgraph_bench.runner.plan import Task
from spgraph_bench.runner.session import Session
from spgraph_bench.runner.spool import Spool
from spgraph_bench.runner.worker import OnMessage, Worker, WorkerDiedError, WorkerHungError

__all__ = ["GONE", "Contact"]

GONE = (WorkerDiedError, WorkerHungError, SpgraphError)
"""What a call raises after which its worker is of no more use: it ended, or its context is poisoned."""


class Contact:
    """Calls to whatever worker has the task. Holds the spool of its arrays, where the worker is a process."""

    def __init__(self, session: Session, task: Task, payload: Payload) -> None:
        self.session, self.task = session, task
        self._payload = payload
        self._loaded: Worker | None = None
        self.has_run_plugins = False
        """Whether the worker has run a variant from elsewhere, which may have done anything to it."""
        self._spool: Spool | None = None

    def __enter__(self) -> Contact:
        if not self.session.in_process:
            self._spool = Spool(self._payload.nbytes)
            try:
                self._spool.save(self._payload.named_arrays())
            except BaseException:
                self._spool.close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._spool is not None:
            self._spool.close()

    @property
    def folder(self) -> Path | None:
        """Where worker and parent leave each other arrays; None where they are one process."""
        return self._spool.path if self._spool is not None else None

    def call(self, name: str, *args: Any, on_message: OnMessage | None = None, ends: float = math.inf) -> Any:
        """Call the worker, which is given the task first if it has not got it. Raises one of GONE, and WorkerLateError
        for a call that has not ended when the monotonic clock shows `ends`."""
        worker = self.session.worker_with(self.task.limits)
        if worker is not self._loaded:
            worker.call("load", self.task, self.folder or self._payload)
            self._loaded, self.has_run_plugins = worker, False
        return worker.call(name, *args, on_message=on_message, ends=ends)

    def drop(self) -> None:
        """End a worker that is of no more use."""
        self.session.drop_worker()
        self.has_run_plugins = False
