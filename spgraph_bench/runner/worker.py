"""The process that owns the GPU, seen from its parent, and its twin without a process.

The parent never initialises CUDA: a kernel that hangs or poisons the context costs one worker, not the run.
Both workers answer the same calls, those of :class:`spgraph_bench.runner.on_device.service.Service`; a call
streams messages while it works. A worker that says nothing for longer than the watchdog allows, while it has
reported that it is on the device, is killed.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

import spgraph_bench
from spgraph_bench.cores import core_limit
from spgraph_bench.errors import SpgraphError
from spgraph_bench.memory import available_memory, oom_kills
from spgraph_bench.paths import temporary_dir
from spgraph_bench.runner.messages import Message, Stage
from spgraph_bench.units import human_bytes

__all__ = [
    "LocalWorker",
    "OnMessage",
    "ProcessWorker",
    "Worker",
    "WorkerDiedError",
    "WorkerHungError",
    "WorkerLateError",
    "drop_spare",
    "start_spare",
]

_INTERRUPT_SECONDS = 3.0
"""How long a timing worker may take to end after Ctrl-C: the sample in flight."""

_BOOT = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("spgraph_bench", sys.argv[1])
sys.modules[spec.name] = package = module_from_spec(spec)
spec.loader.exec_module(package)
from spgraph_bench.runner.serving import serve
serve(int(sys.argv[2]))
"""

OnMessage = Callable[[Message], None]


class WorkerDiedError(Exception):
    """The worker process ended in the middle of a call; the text says how."""


class WorkerHungError(Exception):
    """The worker gave no answer within the watchdog's time and was killed."""


class WorkerLateError(Exception):
    """A call took longer than it may; its worker was killed."""


class Worker(Protocol):
    """Somewhere to run the calls of a Service."""

    def call(self, name: str, *args: Any, on_message: OnMessage | None = None, ends: float = math.inf) -> Any:
        """Call ``service.name(*args)``; messages it emits go to `on_message`. Raises what the call raises.

        A process whose call has not ended when the monotonic clock shows `ends` is killed: WorkerLateError.
        """
        ...

    def kill(self) -> None:
        """End it immediately, whatever it does."""
        ...

    def release(self) -> None:
        """No call follows: let it end while other things are done, until `close`."""
        ...

    def close(self) -> None:
        """End it, after the call in progress."""
        ...


class LocalWorker:
    """Runs the calls in this process: for profilers and sanitizers, without a watchdog."""

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        from spgraph_bench.runner.on_device.service import Service

        self._listener: OnMessage | None = None
        self._service = Service(device, self._emit, **options)

    def _emit(self, message: Message) -> None:
        if self._listener:
            self._listener(message)

    def call(self, name: str, *args: Any, on_message: OnMessage | None = None, ends: float = math.inf) -> Any:
        """See :class:`Worker`. Nothing is killed: the call ends when it ends."""
        self._listener = on_message
        interrupted = False

        def interrupt(*_: object) -> None:
            nonlocal interrupted
            interrupted = self._service.stopping = True

        def break_off(*_: object) -> None:
            self._service.interrupted = True  # a host function may raise KeyboardInterrupt, too
            raise KeyboardInterrupt

        # Timing ends with what it has; anything else is simply broken off.
        before = signal.signal(signal.SIGINT, interrupt if name == "time" else break_off)
        try:
            result = getattr(self._service, name)(*args)
        finally:
            self._listener = None
            signal.signal(signal.SIGINT, before)
        if interrupted:
            raise KeyboardInterrupt
        return result

    def kill(self) -> None:
        """Nothing to end: the calls run in this process."""

    def release(self) -> None:
        """Nothing ends beside this process."""

    def close(self) -> None:
        """Release the device."""
        self._service.close()


class _Process:
    """A worker's process. It loads what it needs before it gets its device."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.errors = tempfile.TemporaryFile(dir=temporary_dir())  # noqa: SIM115 (lives as long as the worker)
        with theirs:
            self.popen = subprocess.Popen(
                # -P: nothing of the working folder is imported; the package is the very one that runs here.
                [sys.executable, "-P", "-c", _BOOT, spgraph_bench.__file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=self.errors,
                # stdout is for data; whatever a library prints there goes where its errors go.
                stdout=self.errors,
                # Ctrl-C is the parent's to handle: it ends the worker when it has kept what is finished.
                start_new_session=True,
            )
        self.pipe = Connection(ours.detach())
        self.oom_kills = oom_kills()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=10)


_spare: list[_Process] = []


def start_spare() -> None:
    """Start a worker's process before anything is known about its task, for the next ProcessWorker to take.

    Python, numpy and scipy take it as long to load as they take us: meanwhile our command line is read.
    """
    if not _spare:
        _spare.append(_Process())


def drop_spare() -> None:
    """End the spare process, if none took it."""
    while _spare:
        spare = _spare.pop()
        spare.kill()
        spare.pipe.close()
        spare.errors.close()


class ProcessWorker:
    """Runs the calls in a child process that is started immediately, so that it gets ready while files are read.

    Parameters
    ----------
    device : as :func:`spgraph_bench.device.open_device` takes it.
    options : further arguments of Service.
    watchdog : seconds without a word, while on the device, before the worker is killed.
    early : called in threads of their own while the device gets ready; what they raise is ignored.
    """

    def __init__(
        self, device: str, options: dict[str, Any], watchdog: float = 60.0, early: Sequence[Callable[[], object]] = ()
    ) -> None:
        self._watchdog = watchdog
        child = _spare.pop() if _spare else _Process()
        self._child, self._process, self._pipe, self._errors = child, child.popen, child.pipe, child.errors
        self._send((device, options, early, core_limit()))

    def _send(self, message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise WorkerDiedError(self._epitaph()) from None

    def call(self, name: str, *args: Any, on_message: OnMessage | None = None, ends: float = math.inf) -> Any:
        """See :class:`Worker`. Raises WorkerDiedError or WorkerHungError when there will be no answer.

        Ctrl-C lets a `time` call end with what it has (in seconds), then KeyboardInterrupt is raised.
        """
        self._send((name, args))
        try:
            return self._listen(on_message, ends=ends)
        except KeyboardInterrupt:
            if name == "time":
                with contextlib.suppress(WorkerDiedError, WorkerHungError, SpgraphError, ProcessLookupError):
                    self._process.send_signal(signal.SIGUSR1)
                    self._listen(on_message, patience=_INTERRUPT_SECONDS)
            raise

    def _listen(self, on_message: OnMessage | None, patience: float | None = None, ends: float = math.inf) -> Any:
        guarded = patience is not None
        limit = patience or self._watchdog
        last_message = time.monotonic()
        while True:
            # Polling in steps keeps Ctrl-C prompt and costs nothing beside the work.
            left = last_message + limit - time.monotonic() if guarded else 1.0
            try:
                ready = self._pipe.poll(min(1.0, max(0.0, left), max(0.0, ends - time.monotonic())))
                reply = self._pipe.recv() if ready else None
            except (EOFError, OSError):
                raise WorkerDiedError(self._epitaph()) from None
            now = time.monotonic()
            if reply is None:
                if guarded and now - last_message >= limit:
                    self.kill()
                    raise WorkerHungError(f"no answer in {limit:g} s")
                if now >= ends:
                    self.kill()
                    raise WorkerLateError("it took longer than it may")
                continue
            last_message = now
            kind, content = reply
            if kind == "result":
                return content
            if kind == "raise":
                raise content
            for message in content:
                if isinstance(message, Stage):
                    guarded = message.guarded or patience is not None
                if on_message:
                    on_message(message)

    def _epitaph(self) -> str:
        """How the process ended, with the last line it wrote."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.returncode
        how = f"ended with status {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"was killed by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL and oom_kills() > self._child.oom_kills:
                now = human_bytes(available_memory())
                return f"the worker process was ended by the kernel: out of memory ({now} are available now)"
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            # AddressSanitizer's finding is in the middle of its report, a Python error at the end.
            telling = [line for line in lines if "ERROR: AddressSanitizer" in line] or lines[-1:]
            if telling:
                how += f": {telling[0].strip()[:200]}"
        return f"the worker process {how}"

    def kill(self) -> None:
        """End the process now."""
        self._child.kill()

    def release(self) -> None:
        """Ask the process to end: taking a CUDA context down needs 0.1 s and more."""
        with contextlib.suppress(OSError):
            self._pipe.close()

    def close(self) -> None:
        """Ask the process to end; kill it when it does not."""
        self.release()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()
        self._errors.close()
