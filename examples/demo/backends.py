"""Run three storage backends of minidb with a worker beside each, and read the binlogs in their directories.

What must be in a directory is computed from what each copy received; what is in it is read without Sexton.
"""

import sqlite3
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from examples.demo.console import Console, DemoFailed
from examples.minidb.backends import Backend
from examples.minidb.binlogs import uid
from sexton.client import Sexton
from sexton.runtime.embedded.child import READY_SECONDS
from sexton.runtime.embedded.stack import WORKER, Stack

SWEPT_LINE = "swept:"
"""The line that the worker beside a backend logs when it has polled once for cuts."""
POLL_SECONDS = 0.05

Versions = dict[str, set[int]]
"""The uid of a copy → the versions whose binlogs it has."""


class Backends:
    """All backends; their workers end with the block of ``closing``."""

    def __init__(
        self, stack: Stack, closing: ExitStack, directory: Path, instance: str, url: str, tokens: Mapping[str, str]
    ) -> None:
        """Create the backends, and start the workers.

        Args:
            stack: which runs the workers.
            closing: ends the workers.
            directory: in which each backend has a directory of its own.
            instance: to which the backends belong.
            url: of the API.
            tokens: by the names of the backends.
        """
        self.by_name: dict[str, Backend] = {}
        self._stack, self._directory, self._received = stack, directory, dict[tuple[str, str], set[int]]()
        for name, token in tokens.items():
            (directory / name).mkdir(parents=True)
            client = closing.enter_context(Sexton(url, token))
            self.by_name[name] = Backend(name, client, directory / name, instance)
            arguments = ["--role", "backend", "--backend-id", name, "--data-dir", str(directory / name)]
            environment = {"SEXTON_NODE_TOKEN": token, "SEXTON_API_URL": url}
            stack.launch_worker(f"{WORKER}-{name}", environment, [*arguments, "--instance", instance])
            closing.callback(self._stop, f"{WORKER}-{name}")

    def await_workers(self) -> None:
        """Wait until each worker takes work, and has polled once for cuts: from then on Sexton knows the backend."""
        deadline = time.monotonic() + READY_SECONDS
        for name in self.by_name:
            self._stack.await_worker(f"{WORKER}-{name}")
            while not any(SWEPT_LINE in line for line in self._stack.children[f"{WORKER}-{name}"].tail(50)):
                if time.monotonic() > deadline:
                    raise DemoFailed(f"the worker beside {name} has not polled for cuts; see its log")
                time.sleep(POLL_SECONDS)

    def record_received(self, tablet: str, version: int, lagging: Collection[str]) -> None:
        """Record that all copies of a tablet have received a version, except those on the ``lagging`` backends."""
        for name in set(self.by_name) - set(lagging):
            self._received.setdefault((tablet, name), set()).add(version)

    def report(self) -> None:
        """Send the report of each backend: which versions it has."""
        for backend in self.by_name.values():
            backend.report()

    def expected(self, cut: int) -> Versions:
        """Return the binlogs that must remain after a cut up to a version: what one copy lacks, all copies retain."""
        remaining: Versions = {}
        for (tablet, name), received in self._received.items():
            missing = [v for b, backend in self.by_name.items() for v in backend.missing(uid(tablet, b), cut)]
            upto = min([cut, *(version - 1 for version in missing)])
            remaining[uid(tablet, name)] = {version for version in received if version > upto}
        return remaining

    def present(self, console: Console) -> Versions:
        """Read from the meta stores which binlogs exist; a file more or less is a disagreement."""
        versions: Versions = {uid(tablet, name): set() for tablet, name in self._received}
        for name in self.by_name:
            root = self._directory / name
            with closing(sqlite3.connect(f"file:{root / 'meta.db'}?mode=ro", uri=True)) as c:
                keys = [k.split("_")[2:] for (k,) in c.execute("SELECT key FROM entry WHERE key LIKE 'binlog_meta_%'")]
            recorded = {f"{copy}/{rowset}_{n}.dat" for copy, _, rowset in keys for n in (0, 1)}
            files = {f"{p.parent.parent.name}/{p.name}" for p in root.glob("data/*/_binlog/*")}
            console.same(f"files of binlogs on {name}", recorded, files)
            for copy, version, _ in keys:
                versions[copy].add(int(version))
        return versions

    def _stop(self, worker: str) -> None:
        if child := self._stack.children.pop(worker, None):
            child.stop()
