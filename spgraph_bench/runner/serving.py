"""The worker's process, seen from inside: it answers calls until its parent hangs up."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from spgraph_bench.cores import limit_cores
from spgraph_bench.errors import SpgraphError
from spgraph_bench.runner.messages import Message

__all__ = ["serve"]


class _Outbox:
    """Sends messages to the parent: samples, which come by the thousand, several at a time.

    They wait for the next message of another kind, or until one comes 20 ms after the last sending.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._owner = pipe, os.getpid()
        self._waiting: list[Message] = []
        self._sent = time.monotonic()

    def add(self, message: Message) -> None:
        self._waiting.append(message)
        if not message.frequent or time.monotonic() - self._sent > 0.02:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._send("messages", waiting)
        self._sent = time.monotonic()

    def answer(self, kind: str, content: Any) -> None:
        """The end of a call: "result" or "raise"."""
        self.flush()
        self._send(kind, content)

    def _send(self, kind: str, content: Any) -> None:
        if os.getpid() != self._owner:
            os._exit(0)  # a copy that a host function has forked: two answers would be taken for those to two calls
        self._pipe.send((kind, content))


def _quietly(work: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):
        work()


def serve(fd: int) -> None:
    """The worker's side: answer calls on the socket `fd` until the parent hangs up."""
    if sys.platform == "linux":
        # The kernel ends us with our parent, also when it dies without a word in the middle of our call.
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        # Where memory runs out, the worker goes, not the parent, which says so.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")
    pipe = Connection(fd)
    outbox = _Outbox(pipe)
    from spgraph_bench.runner.on_device.service import Service

    service: Service | None = None
    failure: SpgraphError | None = None

    def stop(*_: object) -> None:
        if service is not None:
            service.stopping = True

    signal.signal(signal.SIGUSR1, stop)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        device, options, early, threads = pipe.recv()
        if threads is not None:
            limit_cores(threads)
            os.environ["OMP_NUM_THREADS"] = str(threads)  # of MKL and GraphBLAS, which are not loaded yet
        for load in early:
            threading.Thread(target=_quietly, args=[load], daemon=True).start()
        try:
            # Now and not at the first call: the device gets ready while the parent reads its input.
            service = Service(device, outbox.add, **options)
        except SpgraphError as error:
            failure = error
        # What is imported stays: the collections between variants need not look at it.
        gc.freeze()
        while True:
            name, args = pipe.recv()
            if service is None:
                outbox.answer("raise", failure)
                continue
            try:
                outbox.answer("result", getattr(service, name)(*args))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise
            except SpgraphError as error:
                outbox.answer("raise", error)
    # Freeing a poisoned context can hang; the process ends all the same.
    os._exit(0)
