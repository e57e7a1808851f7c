"""Topics on the embedded log, with regions that need their entries, and the node that flushes them."""

import threading
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text
from temporalio.client import WorkflowHandle

from config.settings import Settings
from sexton.runtime.temporal.waiting import running_purges
from sexton.wal.messages import (
    PurgeProgress,
    PurgeReport,
    PurgeRequest,
    PurgeRoundRequest,
    TopicCounts,
)
from sexton.wal.model import Topic
from sexton.wal.wal import WalService
from tests.integration.wal.flushing_node import FlushedRegions
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT, Rig
from tests.support.topics import make_topic, report_flushed
from tests.workflows.conftest import Served, settings_of, until_doing
from workflows import ids

LAG = 50


@pytest.fixture
def settings(rig: Rig) -> Settings:
    small = {"trigger_flush_entries": LAG, "flush_timeout_seconds": 60, "purge_trigger_entries": 300}
    return settings_of(rig, wal=small)


class Topics:
    """The topics of one rig."""

    def __init__(self, served: Served, settings: Settings) -> None:
        self.served, self.rig = served, served.rig
        self.wal = WalService(self.rig.db, settings.wal_settings(), self.rig.controls)

    def make(self, entries: int, *regions: str, name: str = "") -> str:
        """Create an enabled topic with regions that need all of its entries."""
        name = name or f"wal-{uuid.uuid4().hex[:8]}"
        make_topic(self.rig.db, name, entries, dict.fromkeys(regions))
        return name

    def copy(self, topic: str, names: Sequence[str]) -> None:
        """Create topics with the regions and entries of this one; a statement makes thousands of them."""
        columns = {"wal_topic": "name", "wal_region": "topic", "wal_log": "name", "wal_entry": "topic"}
        with self.rig.db.write() as c:
            for table, column in columns.items():
                copies = (
                    f"INSERT INTO sexton.{table} "
                    f"SELECT (jsonb_populate_record(r, jsonb_build_object('{column}', copy))).* "
                    f"FROM sexton.{table} r, unnest(CAST(:names AS text[])) AS copy WHERE r.{column} = :topic"
                )
                c.execute(text(copies), {"names": list(names), "topic": topic})

    def flushed(self, topic: str, region: str, last: int, url: str = "") -> None:
        report_flushed(self.rig.db, topic, region, last, url)

    def topic(self, name: str) -> Topic:
        return self.wal.store.topic(name)

    async def start(self, topic: str, signal: str | None = None) -> WorkflowHandle[Any, PurgeReport]:
        """Start the purge of a topic; ``signal`` is delivered before its first step."""
        request = PurgeRequest(topic=topic, deployment=DEPLOYMENT, instance="shop", requested_by="test")
        return await self.served.begin(ids.PURGE_WAL, request, ids.purge_wal(DEPLOYMENT, topic), PurgeReport, signal)

    async def start_round(self) -> WorkflowHandle[Any, TopicCounts]:
        name = f"{ids.purge_wal_round(DEPLOYMENT)}/{uuid.uuid4().hex[:8]}"
        return await self.served.begin(ids.PURGE_WAL_ROUND, PurgeRoundRequest(deployment=DEPLOYMENT), name, TopicCounts)

    async def round(self, *topics: str) -> TopicCounts:
        """Run a round, await the purges of these topics, and return the round's counts."""
        counts = await (await self.start_round()).result()
        for topic in topics:
            await self.purge_of(topic).result()
        return counts

    def purge_of(self, topic: str) -> WorkflowHandle[Any, PurgeReport]:
        return self.served.client.get_workflow_handle(ids.purge_wal(DEPLOYMENT, topic), result_type=PurgeReport)

    async def listed(self, topic: str) -> None:
        """Wait until Temporal lists the purge of a topic among those that run."""
        look = partial(running_purges, self.served.client, settings_of(self.rig))
        await eventually_async(f"the purge of {topic} is listed", look, lambda names: topic in names)

    async def until(self, handle: WorkflowHandle[Any, PurgeReport], doing: str) -> PurgeProgress:
        return await until_doing(handle, doing, PurgeProgress)


@pytest.fixture
def topics(served: Served, settings: Settings) -> Topics:
    return Topics(served, settings)


class Node:
    """A node; the regions that the test names flush all their entries on request."""

    def __init__(self, topics: Topics, flushed: Sequence[str]) -> None:
        self._topics, self._flushes, self.asked = topics, flushed, list[tuple[str, str]]()
        self.requested_flush = threading.Event()

    def __call__(self, requested: FlushedRegions) -> int:
        self.asked += requested
        for topic, region in requested:
            if region in self._flushes:
                self._topics.flushed(topic, region, (self._topics.topic(topic).log_end or 0) - 1)
        self.requested_flush.set()
        return 202
