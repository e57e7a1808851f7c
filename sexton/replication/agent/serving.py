"""Open the sweeper of a worker beside a storage node, and sweep once at the start."""

import asyncio
import importlib.util
import logging
import os
import re
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from sexton.kernel.errors import BadInput, SextonError
from sexton.kernel.trust import Trust
from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.model import ID
from sexton.replication.agent.sweeping import BackendSweeper

log = logging.getLogger(__name__)
RETRY_SECONDS = 15
DEFAULT_API = "http://127.0.0.1:8470"


class ServedBackend(NamedTuple):
    """The backend of a worker. ``api``: the address of Sexton's API; ``instance``: the instance of the backend."""

    id: str
    data_dir: Path
    api: str = DEFAULT_API
    instance: str = ""


@contextmanager
def open_sweeper(backend: ServedBackend, environment: Mapping[str, str] = os.environ) -> Iterator[BackendSweeper]:
    """Return a sweeper as a context manager, after the proof that the data directory is this backend's.

    Raises:
        BadInput: the id, the address or the token is invalid.
        NoStore, OtherBackend: the data directory is not mounted, or belongs to another backend.
    """
    if not re.fullmatch(ID, backend.id):
        raise BadInput(f"{backend.id!r} is not an id of a backend: use letters, digits, '.' and '-', at most 128")
    if importlib.util.find_spec("httpx") is None:
        raise SextonError("httpx is not installed; run: pip install 'sexton[backend]'")
    from sexton.replication.agent.http import HttpCuts

    meta = SqliteMeta(backend.data_dir, backend.id)
    try:
        with meta.proven():
            cuts = HttpCuts(
                backend.api, token(environment), backend.id, backend.instance, trust=Trust.of_environment(environment)
            )
        try:
            yield BackendSweeper(meta, cuts, backend.instance)
        finally:
            cuts.close()
    finally:
        meta.close()


def token(environment: Mapping[str, str]) -> str:
    """Return the node's token from ``SEXTON_NODE_TOKEN``, or from the file that ``SEXTON_NODE_TOKEN_FILE`` names."""
    value = environment.get("SEXTON_NODE_TOKEN")
    if value:
        return value.strip()
    file = environment.get("SEXTON_NODE_TOKEN_FILE")
    if not file:
        raise BadInput(
            "no token: set SEXTON_NODE_TOKEN or SEXTON_NODE_TOKEN_FILE; create one: sexton token create --scope node:ID"
        )
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as e:
        raise BadInput(f"SEXTON_NODE_TOKEN_FILE={file} cannot be read: {e}") from e


class _Stopped(SextonError):
    """The worker stops; its next start sweeps the rest."""


@asynccontextmanager
async def catching_up(sweeper: BackendSweeper) -> AsyncIterator[None]:
    """Sweep once in a thread beside the block, for a backend that was away; the end of the block stops it soon."""
    stop = threading.Event()

    def heartbeat() -> None:
        if stop.is_set():
            raise _Stopped("stopped")

    def sweep_until_done() -> None:
        # Retry until one sweep succeeds: no workflow notifies a backend that has never pulled.
        while not stop.is_set():
            try:
                sweeper.sweep(heartbeat)
            except _Stopped:
                return
            except SextonError as e:
                level = logging.WARNING if e.passes else logging.ERROR  # an error needs an operator, e.g. a wrong token
                log.log(level, "the sweep at the start failed: %s; trying again in %d s", e, RETRY_SECONDS)
                stop.wait(RETRY_SECONDS)
            else:
                return

    task = asyncio.create_task(asyncio.to_thread(sweep_until_done))
    try:
        yield
    finally:
        stop.set()
        await task
