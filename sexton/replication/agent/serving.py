"""What ``python -m worker --role backend`` is put together from, beside the queue that it serves."""

import asyncio
import importlib.util
import logging
import os
import re
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from sexton.kernel.errors import BadInput, SextonError
from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.sweeping import BackendSweeper

log = logging.getLogger(__name__)
AGAIN_SECONDS = 15
DEFAULT_API = "http://127.0.0.1:8470"
_BACKEND = re.compile(r"[A-Za-z0-9.-]{1,128}")


class ServedBackend(NamedTuple):
    """Which backend a worker stands beside. ``api``: of Sexton; ``instance``: whose backend it is."""

    id: str
    data_dir: Path
    api: str = DEFAULT_API
    instance: str = ""


def add_options(parser: ArgumentParser) -> None:
    """Add the options that say beside which backend."""
    its = parser.add_argument_group("with --role backend")
    its.add_argument("--backend-id", metavar="N", help="the id of the storage node it stands beside")
    its.add_argument("--data-dir", metavar="D", type=Path, help="the node's data directory, with its meta.db")
    its.add_argument("--api", metavar="URL", help=f"of Sexton (default: SEXTON_API_URL, else {DEFAULT_API})")
    its.add_argument("--instance", metavar="I", help="whose storage node it is")


def asked(parser: ArgumentParser, its: Namespace) -> ServedBackend | None:
    """Return beside which backend, None of another role; wrong usage ends the process."""
    if its.role != "backend":
        if any((its.backend_id, its.data_dir, its.api, its.instance)):
            parser.error("--backend-id, --data-dir, --api and --instance are for --role backend")
        return None
    if not its.backend_id or not its.data_dir:
        parser.error("--role backend needs --backend-id and --data-dir")
    return ServedBackend(
        its.backend_id, its.data_dir, its.api or os.environ.get("SEXTON_API_URL") or DEFAULT_API, its.instance or ""
    )


@contextmanager
def opened(backend: ServedBackend, environment: Mapping[str, str] = os.environ) -> Iterator[BackendSweeper]:
    """Give who sweeps, once it is certain that the data directory is this backend's.

    Raises:
        BadInput: of the id, the address or the token.
        NoStore, OtherBackend: the data directory is not mounted, or another backend's.
    """
    if not _BACKEND.fullmatch(backend.id):
        raise BadInput(f"{backend.id!r} is no id of a backend: letters, digits, '.' and '-', at most 128")
    if importlib.util.find_spec("httpx") is None:
        raise SextonError("httpx is not installed: pip install 'sexton[backend]'")
    from sexton.replication.agent.http import HttpCuts

    meta = SqliteMeta(backend.data_dir, backend.id)
    try:
        with meta.proven():
            cuts = HttpCuts(backend.api, token(environment), backend.id, backend.instance)
        try:
            yield BackendSweeper(meta, cuts, backend.instance)
        finally:
            cuts.close()
    finally:
        meta.close()


def token(environment: Mapping[str, str]) -> str:
    """Return the node's token: ``SEXTON_NODE_TOKEN``, or what the file holds that ``SEXTON_NODE_TOKEN_FILE`` names."""
    if given := environment.get("SEXTON_NODE_TOKEN"):
        return given.strip()
    if not (file := environment.get("SEXTON_NODE_TOKEN_FILE")):
        raise BadInput(
            "no token: set SEXTON_NODE_TOKEN or SEXTON_NODE_TOKEN_FILE; make one: sexton token create --scope node:ID"
        )
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as e:
        raise BadInput(f"SEXTON_NODE_TOKEN_FILE={file} cannot be read: {e}") from e


class _Stopped(SextonError):
    """The worker stops; what was not swept is swept after its next start."""


@asynccontextmanager
async def catching_up(sweeper: BackendSweeper) -> AsyncIterator[None]:
    """Sweep once beside the block, so that a backend that was away is caught up; where the block ends it stops soon."""
    stop = threading.Event()

    def heartbeat() -> None:
        if stop.is_set():
            raise _Stopped("stopped")

    def once() -> None:
        # Until it has been heard: a backend that has never asked is told by no round.
        while not stop.is_set():
            try:
                sweeper.sweep(heartbeat)
            except _Stopped:
                return
            except SextonError as e:
                bad = logging.WARNING if e.passes else logging.ERROR  # a wrong token, or another instance's
                log.log(bad, "not caught up at the start: %s; asked again in %d s", e, AGAIN_SECONDS)
                stop.wait(AGAIN_SECONDS)
            else:
                return

    task = asyncio.create_task(asyncio.to_thread(once))
    try:
        yield
    finally:
        stop.set()
        await task
