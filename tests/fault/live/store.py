"""Fill a bucket behind a fault proxy with pages of garbage, and list it independently of Sexton."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from sexton.contract import NewMark
from tests.servers.fault_proxy import Entry, FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig

PAGE = 1_000
"""Keys of one page."""
MARK_KEYS = 10
REAL_EVERY = 100
"""One key in a hundred has an object: a store reports every key as deleted."""


class Bucket:
    """A bucket with garbage whose marks are due, and needed objects beside it."""

    def __init__(self, server: RunningS3, name: str) -> None:
        self._server, self.name = server, name
        self.needed: set[str] = set()
        self.garbage: set[str] = set()

    async def fill(self, rig: Rig, pages: int, after: int = 0) -> None:
        """Mark pages of keys in vault ``cold`` of instance ``shop``, and advance the clock until they are due.

        ``after``: the number of pages that were marked before.
        """
        await asyncio.to_thread(self.fill_now, rig, pages, after)

    def fill_now(self, rig: Rig, pages: int, after: int = 0) -> None:
        """Do the same in this thread."""
        first = after * PAGE
        names = [f"data/{n // PAGE}/{n:06}.dat" for n in range(first, first + pages * PAGE)]
        marks = (
            NewMark(id=f"t{first + n:06}", vault="cold", keys=tuple(names[n : n + MARK_KEYS]))
            for n in range(0, len(names), MARK_KEYS)
        )
        rig.mark("dropped", *marks)
        self.garbage |= set(names)
        self.needed |= {f"data/{page}/live.dat" for page in range(after, after + pages)}
        self.put(*names[::REAL_EVERY], *self.needed)
        rig.later(10_801)

    def put(self, *keys: str) -> None:
        client = self._server.client()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: client.put_object(Bucket=self.name, Key=key, Body=b"x"), keys))

    def listing(self) -> set[str]:
        """List the bucket without the proxy and without Sexton."""
        pages = self._server.client().get_paginator("list_objects_v2").paginate(Bucket=self.name)
        keys = {o["Key"] for page in pages for o in page.get("Contents", ())}
        return {key for key in keys if not key.startswith("_sexton/")}


def deletes(proxy: FaultProxy, since: float = 0.0) -> list[Entry]:
    """Return the delete requests received since an instant (``time.monotonic``), oldest first."""
    return sorted((e for e in proxy.log if e.operation == "DeleteObjects" and e.time >= since), key=lambda e: e.time)
