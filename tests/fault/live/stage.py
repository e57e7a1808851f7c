"""Tests that mostly wait run side by side: all that were selected begin with the first, each is told of in its turn.

A test decorated with ``at_once`` gets a ``Stage``, and from it a deployment of its own: only servers are shared.
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

from tests.fault.live.scene import Scene
from tests.fault.live.store import Bucket
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig

ACTS_AT_ONCE = 6
"""On two cores; with more of them requests begin to take longer than a client waits."""
STARTS_AT_ONCE = 3
"""Worker processes that start side by side: each needs a second of CPU."""
ACT_SECONDS = 240
TOLD_SECONDS = 600
"""Time enough for a test to be told of after all those before it."""


class Servers(NamedTuple):
    """What all stages share."""

    temporal_address: str
    s3: RunningS3
    starts: asyncio.Semaphore


class Stage:
    """Where one test plays: a directory, what it had to say, and the logs of its processes."""

    def __init__(self, servers: Servers, home: Path) -> None:
        self.servers, self.home = servers, home
        self.said: list[str] = []
        home.mkdir()

    def say(self, line: str) -> None:
        self.said.append(line)

    def proxy(self) -> FaultProxy:
        """Another proxy before the same store; a context manager."""
        s3 = self.servers.s3
        return FaultProxy(s3.endpoint_url, s3.access_key, s3.secret_key)

    @asynccontextmanager
    async def scene(
        self, url: str = "", temporal: tuple[str, str] | None = None, *, cold: bool = True
    ) -> AsyncIterator[Scene]:
        """Give a rig (over SQLite unless a URL says otherwise) in a Temporal namespace of its own, or (address, name).

        Its instance ``shop`` has a bucket, reached through ``scene.proxy``, as vault ``cold`` unless it needs none.
        """
        with self.proxy() as proxy:
            rig = Rig(url or f"sqlite:///{self.home / 'sexton.db'}", endpoint_url=proxy.url).instance()
            bucket = ""
            if cold:
                bucket = await asyncio.to_thread(self.servers.s3.create_bucket)
                rig.s3(bucket)
            address, namespace = temporal or (self.servers.temporal_address, "")
            store = Bucket(self.servers.s3, bucket)
            scene = await Scene.open(address, namespace, rig, self.home, store, proxy, self.servers.starts)
            try:
                yield scene
            finally:
                self.said += scene.close()


Test = Callable[..., Awaitable[None]]


def at_once(seconds: float) -> Callable[[Test], Callable[..., None]]:
    """Decorate a test that takes a ``stage`` and its parameters, no other fixture.

    Args:
        seconds: about as long as it takes when it is alone; the longest begin first.
    """

    def decorate(test: Test) -> Callable[..., None]:
        @functools.wraps(test)
        def told(request: pytest.FixtureRequest, acts: "Acts", **_: object) -> None:
            acts.tell(request.node)

        its_own = [p for p in inspect.signature(test).parameters.values() if p.name != "stage"]
        asked = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("request", "acts")]
        told.__signature__ = inspect.Signature([*asked, *its_own])  # type: ignore[attr-defined]
        told.act, told.seconds = test, seconds  # type: ignore[attr-defined]
        return pytest.mark.timeout(TOLD_SECONDS)(told)

    return decorate


class Acts:
    """The selected tests of this folder, under way in a thread with an event loop."""

    def __init__(self, items: Sequence[Any], address: str, s3: RunningS3, home: Path) -> None:
        chosen = [item for item in items if hasattr(getattr(item, "function", None), "act")]
        chosen.sort(key=lambda item: -item.function.seconds)
        servers = Servers(address, s3, asyncio.Semaphore(STARTS_AT_ONCE))
        self._ends: dict[str, Future[None]] = {item.nodeid: Future() for item in chosen}
        self._stages = {item.nodeid: Stage(servers, home / str(n)) for n, item in enumerate(chosen)}
        threading.Thread(target=asyncio.run, args=(self._run(chosen),), name="acts", daemon=True).start()

    def tell(self, item: Any) -> None:
        """Wait for one test's end; print what it said, and raise what it raised."""
        try:
            self._ends[item.nodeid].result()
        finally:
            print(*self._stages[item.nodeid].said, sep="\n")

    async def _run(self, items: Sequence[Any]) -> None:
        lanes = asyncio.Semaphore(ACTS_AT_ONCE)
        await asyncio.gather(*(self._act(item, lanes) for item in items))

    async def _act(self, item: Any, lanes: asyncio.Semaphore) -> None:
        async with lanes:
            given = item.callspec.params if hasattr(item, "callspec") else {}
            long = item.get_closest_marker("soak") is not None
            try:
                async with asyncio.timeout(None if long else ACT_SECONDS):
                    await item.function.act(stage=self._stages[item.nodeid], **given)
            except BaseException as e:  # noqa: BLE001 - it is raised in the test's own turn
                self._ends[item.nodeid].set_exception(e)
            else:
                self._ends[item.nodeid].set_result(None)
