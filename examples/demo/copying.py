"""A sync job beside the story: it copies a dropped table to another place, half before the round and half after it."""

import hashlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from examples.demo.world import World
from examples.minidb import Vault
from examples.minidb.sync import SyncRun, copy_table
from sexton.client import Sexton

PATIENCE_SECONDS = 120.0


class Copying:
    """One run of the job, in a thread of its own."""

    def __init__(self, world: World, url: str, token: str, table: str, version: int) -> None:
        """Nothing is copied yet.

        Args:
            world: whose table it is.
            url: of the API.
            token: of scope ``sync:copy``.
            table: its name.
            version: the watermark from which on minidb knows of the copy.
        """
        self.job = f"copy:{world.instance}"
        self._world, self._table, self._version = world, table, version
        self._client = Sexton(url, token)
        self._half, self._go_on = threading.Event(), threading.Event()
        self._files = len(world.db.keys(table))
        world.s3.create_bucket(Bucket=world.mirror.bucket)
        self._pool = ThreadPoolExecutor(1)
        self._copied: Future[int] | None = None

    def begin(self) -> int:
        """Copy the first half; return how many files that is."""
        self._copied = self._pool.submit(self._run)
        while not self._half.wait(0.05):
            if self._copied.done():
                self._copied.result()  # it says what went wrong
        return self._files // 2

    def end(self) -> int:
        """Copy the rest, and finish; return how many files were copied in all."""
        self._go_on.set()
        assert self._copied is not None
        copied = self._copied.result(PATIENCE_SECONDS)
        self._client.close()
        self._pool.shutdown()
        return copied

    def same(self) -> bool:
        """Read the copy back and compare it with what minidb wrote."""
        wanted = {f"{vault}/{key}": sha256 for (vault, key), sha256 in self._world.db.checksums(self._table).items()}
        mirror: Vault = self._world.mirror
        found = dict(zip(wanted, mirror.read(list(wanted)), strict=True))
        return {key: hashlib.sha256(content).hexdigest() for key, content in found.items()} == wanted

    def _run(self) -> int:
        world = self._world
        run = SyncRun(world.instance, self._version)
        return copy_table(self._client, world.db, self._table, world.mirror, run, self._each)

    def _each(self, copied: int) -> None:
        if copied == self._files // 2:
            self._half.set()
            self._go_on.wait(PATIENCE_SECONDS)
