"""Run tests that mostly wait side by side: all selected ones start with the first, and each reports in its own turn.

A test decorated with ``side_by_side`` gets a ``LiveTest``, and from it a deployment of its own; they share servers.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fault.live.deployment import Deployment
from tests.fault.live.store import Bucket
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import new_database, shared
from tests.servers.s3 import RunningS3
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig

MAX_CONCURRENT_TESTS = 6
"""On two cores; with more of them requests take longer than a client waits."""
MAX_CONCURRENT_STARTS = 3
"""Worker processes that start side by side: each needs a second of CPU."""
TEST_SECONDS = 4 * PATIENCE_SECONDS
REPORT_SECONDS = 10 * PATIENCE_SECONDS
"""Timeout of a test's report, which waits for the reports of all tests before it."""


class Servers(NamedTuple):
    """The servers that all tests share."""

    temporal_address: str
    s3: RunningS3
    starts: asyncio.Semaphore


class LiveTest:
    """The directory, the notes and the process logs of one test."""

    def __init__(self, servers: Servers, home: Path) -> None:
        self.servers, self.home = servers, home
        self.notes: list[str] = []
        home.mkdir()

    def note(self, line: str) -> None:
        """Add a line to the test's output."""
        self.notes.append(line)

    def proxy(self) -> FaultProxy:
        """Return another proxy of the same store; a context manager."""
        s3 = self.servers.s3
        return FaultProxy(s3.endpoint_url, s3.access_key, s3.secret_key)

    @asynccontextmanager
    async def deployment(
        self, url: str = "", temporal: tuple[str, str] | None = None, *, cold: bool = True
    ) -> AsyncIterator[Deployment]:
        """Yield a deployment with the instance ``shop``.

        Args:
            url: its database; without one, a new one of the shared server.
            temporal: address and namespace; a new namespace of the shared server without one.
            cold: whether the instance has a bucket, reached through ``deployment.proxy``, as vault ``cold``.
        """
        with self.proxy() as proxy:
            # Another test ends meanwhile, and would drop it.
            own_url = url or shared().keep(new_database())
            rig = Rig(own_url, endpoint_url=proxy.url).instance()
            bucket = ""
            if cold:
                bucket = await asyncio.to_thread(self.servers.s3.create_bucket)
                rig.s3(bucket)
            address, namespace = temporal or (self.servers.temporal_address, "")
            store = Bucket(self.servers.s3, bucket)
            deployment = await Deployment.open(address, namespace, rig, self.home, store, proxy, self.servers.starts)
            try:
                yield deployment
            finally:
                self.notes += deployment.close()
                if not url:
                    shared().drop_database(own_url)


Test = Callable[..., Awaitable[None]]


def side_by_side(seconds: float) -> Callable[[Test], Callable[..., None]]:
    """Decorate a test that takes ``live`` and its parameters, but no other fixture.

    Args:
        seconds: about how long the test takes when it runs alone; the longest tests start first.
    """

    def decorate(test: Test) -> Callable[..., None]:
        @functools.wraps(test)
        def report(request: pytest.FixtureRequest, concurrent_tests: "ConcurrentTests", **_: object) -> None:
            concurrent_tests.report(request.node)

        parameters = [p for p in inspect.signature(test).parameters.values() if p.name != "live"]
        fixtures = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("request", "concurrent_tests")
        ]
        report.__signature__ = inspect.Signature([*fixtures, *parameters])  # type: ignore[attr-defined]
        report.body, report.seconds = test, seconds  # type: ignore[attr-defined]
        return pytest.mark.timeout(REPORT_SECONDS)(report)

    return decorate


class ConcurrentTests:
    """The selected tests of this folder, which run in a thread with an event loop."""

    def __init__(self, items: Sequence[Any], address: str, s3: RunningS3, home: Path) -> None:
        selected = [item for item in items if hasattr(getattr(item, "function", None), "body")]
        selected.sort(key=lambda item: -item.function.seconds)
        servers = Servers(address, s3, asyncio.Semaphore(MAX_CONCURRENT_STARTS))
        self._results: dict[str, Future[None]] = {item.nodeid: Future() for item in selected}
        self._tests = {item.nodeid: LiveTest(servers, home / str(n)) for n, item in enumerate(selected)}
        threading.Thread(target=asyncio.run, args=(self._run_all(selected),), name="tests", daemon=True).start()

    def report(self, item: Any) -> None:
        """Wait for the end of one test, print its notes, and raise the error that it raised."""
        try:
            self._results[item.nodeid].result()
        finally:
            print(*self._tests[item.nodeid].notes, sep="\n")

    async def _run_all(self, items: Sequence[Any]) -> None:
        slots = asyncio.Semaphore(MAX_CONCURRENT_TESTS)
        await asyncio.gather(*(self._run(item, slots) for item in items))

    async def _run(self, item: Any, slots: asyncio.Semaphore) -> None:
        async with slots:
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            soak = item.get_closest_marker("soak") is not None
            try:
                async with asyncio.timeout(None if soak else TEST_SECONDS):
                    await item.function.body(live=self._tests[item.nodeid], **parameters)
            except BaseException as e:  # noqa: BLE001 - the test's own turn raises it
                self._results[item.nodeid].set_exception(e)
            else:
                self._results[item.nodeid].set_result(None)
