"""Three storage backends of minidb, the real worker beside each, and what of binlogs lies in their directories.

What must lie there is counted from what each copy took; what does is read without Sexton.
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
from sexton.runtime.embedded.stack import WORKER, WORKER_READY_SECONDS, Stack

SWEPT_LINE = "swept:"
"""What the worker beside a backend logs when it has asked once for cuts."""
LOOK_SECONDS = 0.05

Versions = dict[str, set[int]]
"""The uid of a copy → the versions of which it has binlogs."""


class Backends:
    """All of them; the workers end with the block of ``closing``."""

    def __init__(
        self, stack: Stack, closing: ExitStack, directory: Path, instance: str, url: str, tokens: Mapping[str, str]
    ) -> None:
        """Make them, and start the workers.

        Args:
            stack: which runs the workers.
            closing: what ends them.
            directory: in which each has one of its own.
            instance: whose backends they are.
            url: of the API.
            tokens: by the names of the backends.
        """
        self.all: dict[str, Backend] = {}
        self._stack, self._directory, self._taken = stack, directory, dict[tuple[str, str], set[int]]()
        for name, token in tokens.items():
            (directory / name).mkdir(parents=True)
            client = closing.enter_context(Sexton(url, token))
            self.all[name] = Backend(name, client, directory / name, instance)
            arguments = ["--role", "backend", "--backend-id", name, "--data-dir", str(directory / name)]
            environment = {"SEXTON_NODE_TOKEN": token, "SEXTON_API_URL": url}
            stack.launch_worker(f"{WORKER}-{name}", environment, [*arguments, "--instance", instance])
            closing.callback(self._end, f"{WORKER}-{name}")

    def await_workers(self) -> None:
        """Wait until each takes work, and has asked once for cuts: since then Sexton knows of it."""
        over = time.monotonic() + WORKER_READY_SECONDS
        for name in self.all:
            self._stack.await_worker(f"{WORKER}-{name}")
            while not any(SWEPT_LINE in line for line in self._stack.children[f"{WORKER}-{name}"].tail(50)):
                if time.monotonic() > over:
                    raise DemoFailed(f"the worker beside {name} asked for nothing; see its log")
                time.sleep(LOOK_SECONDS)

    def took(self, tablet: str, version: int, but: Collection[str]) -> None:
        """Count that all copies of a tablet have taken a version, ``but`` some."""
        for name in set(self.all) - set(but):
            self._taken.setdefault((tablet, name), set()).add(version)

    def report(self) -> None:
        """Let each say which versions it has."""
        for backend in self.all.values():
            backend.report()

    def expected(self, cut: int) -> Versions:
        """Return what must be left of binlogs where those up to a version were cut: what a copy lacks stays on all."""
        left: Versions = {}
        for (tablet, name), taken in self._taken.items():
            lacks = [v for b, its in self.all.items() for v in its.missing(uid(tablet, b), cut)]
            upto = min([cut, *(v - 1 for v in lacks)])
            left[uid(tablet, name)] = {v for v in taken if v > upto}
        return left

    def found(self, console: Console) -> Versions:
        """Read of which versions there are binlogs, by the meta stores; a file more or less disagrees."""
        found: Versions = {uid(tablet, name): set() for tablet, name in self._taken}
        for name in self.all:
            root = self._directory / name
            with closing(sqlite3.connect(f"file:{root / 'meta.db'}?mode=ro", uri=True)) as c:
                keys = [k.split("_")[2:] for (k,) in c.execute("SELECT key FROM entry WHERE key LIKE 'binlog_meta_%'")]
            named = {f"{its}/{rowset}_{n}.dat" for its, _, rowset in keys for n in (0, 1)}
            files = {f"{p.parent.parent.name}/{p.name}" for p in root.glob("data/*/_binlog/*")}
            console.same(f"files of binlogs on {name}", named, files)
            for its, version, _ in keys:
                found[its].add(int(version))
        return found

    def _end(self, worker: str) -> None:
        if child := self._stack.children.pop(worker, None):
            child.stop()
