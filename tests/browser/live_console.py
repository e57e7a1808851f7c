"""A deployment that a browser watches: Temporal with its UI, `sexton console` and workers, each of which may die."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from playwright.sync_api import Browser, Page

from sexton.contract import NewMark
from sexton.operators.access import policy
from sexton.runtime.embedded.ports import Ports, free_port
from sexton.runtime.embedded.stack import NAMESPACE, TemporalServer
from tests.servers.forked import Forked
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, put

DUE_SECONDS = 10_801


class LiveConsole:
    """The processes of a deployment over the database of a rig."""

    def __init__(self, rig: Rig, home: Path, **settings: str) -> None:
        """Prepare the processes; ``settings``: variables without their ``SEXTON_``."""
        home.mkdir(parents=True, exist_ok=True)
        self.rig, self._home, self._settings = rig, home, settings
        self.temporal = TemporalServer(home, Ports(home))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._started: list[Forked] = []

    def __enter__(self) -> Self:
        self.temporal.start()
        self.console = self.start_console()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
        self.temporal.child.stop()

    def start_console(self) -> Forked:
        """Start `sexton console`, always at the same address."""
        return self._start("console", ["console", "--listen", f"127.0.0.1:{self.port}"], "listening")

    def start_worker(self, name: str) -> Forked:
        """Start a worker that deletes one page at a time."""
        return self._start(name, ["worker", "run"], "is polling")

    def token(self, scope: str) -> str:
        """Return a new token of a scope."""
        return self.rig.all_stores.tokens.create(policy.scope(scope), 1, "test")[1]

    @contextmanager
    def page(self, browser: Browser, scope: str, **options: object) -> Iterator[Page]:
        """Yield the overview in a new session."""
        context = browser.new_context(base_url=self.url, **options)
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        try:
            page = context.new_page()
            page.goto("/console")
            page.fill("#token", self.token(scope))
            page.click("text=Log in")
            page.wait_for_selector("nav.menu")
            page.wait_for_load_state()  # of a console that is killed earlier, the page has no script
            yield page
        finally:
            context.close()

    def _start(self, name: str, words: list[str], ready: str) -> Forked:
        variables = {key: value for key, value in os.environ.items() if not key.startswith("SEXTON_")}
        variables |= {
            "SEXTON_HOME": str(self._home / name),
            "SEXTON_DATABASE_URL": self.rig.url,
            "SEXTON_DEPLOYMENT": self.rig.deployment,
            "SEXTON_TEMPORAL__ADDRESS": self.temporal.address,
            "SEXTON_TEMPORAL__NAMESPACE": NAMESPACE,
            "SEXTON_TEMPORAL__UI_URL": self.temporal.ui_url,
            "SEXTON_METRICS__LISTEN": "",
            "SEXTON_RECYCLE__INSTANCE_RECYCLER_WORKER_POOL_SIZE": "1",
        }
        variables |= {f"SEXTON_{name}": value for name, value in self._settings.items()}
        process = Forked(name, "sexton", words, self._home / name, variables)
        self._started.append(process)
        process.start(lambda: ready in process.log.read_text())
        return process


def dropped_table(
    rig: Rig, root: Path, objects: int, keys_per_mark: int = 1, cap: int = 1_000, name: str = "t"
) -> list[Path]:
    """Mark files of vault ``disk`` that are due now, cap their deletion, and return them."""
    files = []
    for number in range(objects // keys_per_mark):
        keys = tuple(f"data/{name}{number}/{n}.dat" for n in range(keys_per_mark))
        for key in keys:
            put(root, key)
        rig.mark("dropped", NewMark(id=f"{name}{number}", vault="disk", keys=keys))
        files += [root / key for key in keys]
    rig.later(DUE_SECONDS)
    rig.all_stores.paces.put_cap("shop/disk", cap, "a test watches", "test")
    return files
