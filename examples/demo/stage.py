"""Start the stack with a worker, show the parts of the story on it, and keep it running until Ctrl-C."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from examples.demo.binlog import expire_binlogs
from examples.demo.checking import LOW_THRESHOLD
from examples.demo.console import Console
from examples.demo.ducklake import clean_a_lake
from examples.demo.ending import Sight, print_table, print_verdict
from examples.demo.files import FilesStory
from examples.demo.lake import drop_a_table
from examples.demo.temporal import delete_schedule
from examples.demo.topic import SMALL_LAG, shrink_topic
from examples.demo.world import World
from sexton.runtime.embedded.stack import WORKER, Stack
from sexton.runtime.embedded.up import StackSupervisor

SETTINGS = SMALL_LAG | LOW_THRESHOLD
"""Variables of workers and commands."""


class Stage:
    """The stack of one run of the demo. Call ``stop`` in a ``finally``; it may be called in any state."""

    def __init__(self, console: Console, home: Path) -> None:
        self._console = console
        self._stack = Stack(home)

    def start(self) -> None:
        """Start the servers and a worker, and print the link to the Temporal UI. Raises ``EmbeddedError``."""
        self._console.say(f"Data and logs: {os.path.relpath(self._stack.home)}")
        self._stack.start(self._console.say)
        environment = self._stack.environment()
        self._console.say(f"Temporal UI: {environment['SEXTON_TEMPORAL__UI_URL']} (while the demo runs)")
        if delete_schedule(self._stack):
            self._console.say("Deleted the schedule of an earlier `sexton up`, which creates it again.")
        # It starts while the story goes on; the round waits for it.
        self._stack.launch_worker(WORKER, SETTINGS)
        self._console.connect(self._stack.home, environment | SETTINGS)

    def show(self, parts: Collection[str], *, stays: bool) -> None:
        """Show parts of the story, then the verdict, then a table of what was seen.

        Args:
            parts: of ``files``, ``wal``, ``binlog``, ``catalog`` and ``ducklake``.
            stays: the stack stays up afterwards, so that the table has commands.
        """
        world = World(self._stack)
        self._console.act(f"Set-up: a database is registered as instance {world.instance}")
        world.register(self._console, with_vaults="files" in parts)
        sights: list[Sight] = []
        if "files" in parts:
            sights += FilesStory(self._console, self._stack, world, SETTINGS).tell()
        if {"wal", "binlog", "catalog"} & set(parts):
            self._stack.start_console()
        if "wal" in parts:
            sights += shrink_topic(self._console, world, self._stack.home)
        if "binlog" in parts:
            sights += expire_binlogs(self._console, world, self._stack)
        if "catalog" in parts:
            sights += drop_a_table(self._console, world)
        if "ducklake" in parts:
            sights += clean_a_lake(self._console, world, self._stack.home)
        print_verdict(self._console)
        print_table(self._console, sights, self._stack.home, running=stays)

    def stay(self) -> None:
        """Keep the stack running until Ctrl-C. Raises ``EmbeddedError`` when a server dies."""
        print("\n  The stack stays up. Ctrl-C stops it.", flush=True)
        with suppress(KeyboardInterrupt):
            StackSupervisor(self._stack, self._console.say).supervise()

    def stop(self) -> None:
        """Stop every server and worker."""
        self._stack.stop()
