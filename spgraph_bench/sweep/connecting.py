"""Reaching a Dask cluster that is there already."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from spgraph_bench.errors import DeviceError, UsageError
from spgraph_bench.sweep.crew import LOST_S, Crew, find_workers, use_dask

__all__ = ["Tls", "connected"]


@dataclass(frozen=True)
class Tls:
    """Files of certificates, as Dask takes them; all or none."""

    ca: str = ""
    cert: str = ""
    key: str = ""


@contextmanager
def connected(
    address: str, device: str, session: Mapping[str, Any], tls: Tls, *, insecure: bool, warn: Callable[[str], None]
) -> Iterator[Crew]:
    """The Dask cluster whose scheduler is at `address`.

    Raises DeviceError where it does not answer or none of its workers offers GPU=1, UsageError for an address that
    others can listen to (`insecure` lets that pass).
    """
    use_dask([])
    from distributed import Client

    _check_address(address, insecure)
    security = _security(address, tls)

    class Reached(Client):  # type: ignore[misc]
        """A client that is closed where it cannot connect: Dask's own waits for an answer when it is collected."""

        def start(self, **more: Any) -> None:
            try:
                super().start(**more)
            except BaseException:
                self.status = "closed"
                raise

    try:
        client = Reached(address, timeout=LOST_S, security=security, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError, TypeError) as error:
        raise DeviceError(
            f"the scheduler at {address} does not answer: {str(error).splitlines()[0] if str(error) else 'no answer'}",
            remedy="start it, or check the address and the certificates (docs/cluster.md)",
        ) from None
    with client:
        crew = Crew(client, device, session)
        find_workers(crew, 1, warn)
        yield crew


def _check_address(address: str, insecure: bool) -> None:
    """Raises UsageError for what is not an address, or not encrypted where others can listen."""
    protocol, _, place = address.rpartition("://")
    host = place.rpartition(":")[0].strip("[]")
    if protocol not in ("tls", "tcp", "ucx") or not host:
        raise UsageError(
            f"--scheduler {address!r}: not an address", remedy="write tls://HOST:PORT, or tcp://127.0.0.1:PORT"
        )
    if protocol != "tls" and host not in ("127.0.0.1", "localhost", "::1") and not insecure:
        raise UsageError(
            f"{address} is not encrypted: anyone who can reach it can run programs as you",
            remedy="use tls:// (docs/cluster.md), or --insecure where the network is your own",
        )


def _security(address: str, tls: Tls) -> Any:
    """The certificates for Dask; None: those of its own config, if any. Raises UsageError where some are missing."""
    from distributed import Security

    remedy = "give --tls-ca, --tls-cert and --tls-key"
    files = (tls.ca, tls.cert, tls.key)
    if not any(files):
        if address.startswith("tls:") and Security().get_connection_args("client").get("ssl_context") is None:
            raise UsageError("tls:// needs certificates", remedy=f"{remedy} (docs/cluster.md)")
        return None
    if not all(files):
        raise UsageError("TLS needs three files", remedy=remedy)
    for name in files:
        if not os.path.isfile(name):
            raise UsageError("no such file", place=name, remedy="check the path of the certificate")
    return Security(tls_ca_file=tls.ca, tls_client_cert=tls.cert, tls_client_key=tls.key, require_encryption=True)
