"""Record histories for the replay test: `python -m tests.replay.record rounds endings purges binlogs`, or one.

Run it when a workflow's behaviour changes on purpose, under a new name: the old histories stay, they must replay too.
"""

import asyncio
import datetime as dt
import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from temporalio.client import WorkflowFailureError
from temporalio.worker import Worker

from activities import RecycleActivities
from sexton.check.model import CheckReport, CheckRequest
from sexton.contract import NewMark
from sexton.interfaces.worker import control
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.recycle.pipeline import ranges
from sexton.runtime.engine import Engine
from sexton.runtime.temporal import search_attributes
from sexton.runtime.worker_rows import WorkerPresence
from tests.integration.wal.flushing_node import flushing_node
from tests.servers.postgres import new_database
from tests.servers.temporal import DevServer, start_local
from tests.support.rig import DEPLOYMENT, Rig, put
from tests.workflows.conftest import Served, changed, settings_of
from tests.workflows.test_binlog import Gc
from tests.workflows.topics import Topics
from workflows import ids, options

HISTORIES = Path(__file__).parent / "histories"
SPARK = {"spark_threshold_objects": 0}
"""Each kind and each check is Spark's."""


async def record_rounds(served: Served, scratch: Path) -> dict[str, Any]:
    """Return histories by file name: a round that was paused, the tick that started one, and checks."""
    rig, client = served.rig.instance(), served.client
    root = rig.local(scratch / "v")
    for n in range(3):
        put(root, f"data/{n}/a.dat")
        rig.mark("dropped", NewMark(id=f"p{n}", vault="disk", prefix=f"data/{n}/"))
        rig.mark("compacted", NewMark(id=f"k{n}", vault="disk", keys=(f"k/{n}.dat",)))
    rig.mark("dropped", NewMark(id="lost", vault="nowhere", keys=("x",)))
    rig.later(10_801)
    await search_attributes.register(client)
    broken = iter([True])

    def once(name: str) -> None:
        if name == "claim.guarded" and next(broken, False):
            raise BadInput("broken once")

    async with await control.build(client, settings_of(rig), rig.db):
        with installed(once):
            handle = await served.start("shop")
            await served.until(handle, lambda p: p.doing == "BACKING_OFF")
            await handle.signal("pause")
            await served.until(handle, lambda p: p.doing == "PAUSED")
            await handle.signal("resume")
            await handle.result()
        found = {"recycle-instance-paused": await handle.fetch_history()}
        rig.later(3_601)
        ticked = await served.tick()
        await ticked.result()
        scheduled = client.get_workflow_handle(ids.recycle(DEPLOYMENT, "shop"))
        await scheduled.result()
        found["recycle-tick-checks"] = await ticked.fetch_history()
        found["recycle-instance-scheduled"] = await scheduled.fetch_history()
        checked = client.get_workflow_handle(ids.check(DEPLOYMENT, "shop"))
        await checked.result()
        found["check-instance-scheduled"] = await checked.fetch_history()
    rig.mark("compacted", *(NewMark(id=f"h{n}", vault="disk", keys=(f"h/{n}.dat",)) for n in range(3)))
    rig.later(10_801)
    with mock.patch.object(options, "SPARK_WAIT", dt.timedelta(seconds=1)):
        async with await control.build(client, settings_of(rig, spark=SPARK), rig.db):
            handle = await served.start("shop")
            await handle.result()
            found["recycle-instance-no_spark_worker"] = await handle.fetch_history()
            rig.all_stores.workers.report(WorkerPresence(worker="gone", role="spark", slots=2, busy=0))
            rig.mark("compacted", *(NewMark(id=f"i{n}", vault="disk", keys=(f"i/{n}.dat",)) for n in range(3)))
            rig.later(10_801)
            handle = await served.start("shop")
            await handle.result()
            found["recycle-instance-spark_worker_gone"] = await handle.fetch_history()
            request, name = CheckRequest(instance="shop"), ids.check(DEPLOYMENT, "shop")
            checking = await served.begin(ids.CHECK, request, name, CheckReport)
            await checking.result()
            found["check-instance-nobody_polls"] = await checking.fetch_history()
    return found


async def record_endings(served: Served, scratch: Path) -> dict[str, Any]:
    """Return histories by file name: rounds that are cancelled, fail, lose a lease, continue as new, or use Spark."""
    rig, client = served.rig.instance(), served.client
    root = rig.local(scratch / "v")
    await search_attributes.register(client)
    settings = settings_of(rig)
    rig.policy = settings.policy()
    found: dict[str, Any] = {}

    def fill(marks: int, prefix: str) -> None:
        for n in range(marks):
            rig.drop(root, f"{prefix}/{n}.dat", f"{prefix}{n}")
        rig.later(10_801)

    def lose_lease(name: str) -> None:
        if name == "claim.committed" and lost:
            lost.clear()
            rig.sql("UPDATE {}lease SET epoch = epoch + 1, state = 'IDLE'")

    def break_always(name: str) -> None:
        if name == "claim.guarded":
            raise BadInput("always broken")

    small = [mock.patch.object(ranges, name, 10) for name in ("RANGE_OBJECTS", "GROUP_FILES", "CHUNK_MARKS")]
    with ExitStack() as patched:
        for patch in [*small, mock.patch.object(options, "FIRST_BACKOFF_SECONDS", 0.05)]:
            patched.enter_context(patch)
        async with await control.build(client, settings, rig.db):
            fill(30, "a")
            async with served.held("shop") as (handle, door):
                await handle.signal("cancel")
                door.open()
                await handle.result()
            found["recycle-instance-cancelled"] = await handle.fetch_history()
            with installed(break_always), suppress(WorkflowFailureError):
                fill(3, "b")
                handle = await served.start("shop")
                await handle.result()
            found["recycle-instance-failed"] = await handle.fetch_history()
            lost = [True]
            with installed(lose_lease):
                handle = await served.start("shop")
                await handle.result()
            found["recycle-instance-lost_lease"] = await handle.fetch_history()
            fill(200, "c")
            handle = await served.start("shop")
            first = handle.result_run_id
            await handle.result()
            found["recycle-instance-continued"] = await client.get_workflow_handle(
                handle.id, run_id=first
            ).fetch_history()
            found["recycle-instance-carried"] = await client.get_workflow_handle(handle.id).fetch_history()
    heavy = changed(settings, spark=SPARK)
    engine = Engine(rig.db, heavy.engine_settings())
    by_spark = RecycleActivities(engine.rounds, engine.recycler(engine.deleter), heavy.policy())
    queue, threads = ids.spark_queue(DEPLOYMENT), ThreadPoolExecutor(2)
    spark = Worker(client, task_queue=queue, activities=[by_spark.recycle_range], activity_executor=threads)
    async with await control.build(client, heavy, rig.db), spark:
        rig.all_stores.workers.report(WorkerPresence(worker="spark", role="spark", slots=2, busy=0))
        fill(3, "d")
        handle = await served.start("shop")
        await handle.result()
        found["recycle-instance-on_spark"] = await handle.fetch_history()
    return found


async def record_purges(served: Served, _: Path) -> dict[str, Any]:
    """Return histories by file name: a purge that waits, is paused, and purges; a round; the tick that started one."""
    rig, client = served.rig.instance(), served.client
    settings = settings_of(rig, wal={"trigger_flush_entries": 50})
    topics = Topics(served, settings)
    name = topics.make(200, "r1", name="orders-wal")
    async with await control.build(client, settings, rig.db):
        with flushing_node(lambda _: 202) as url:
            topics.flushed(name, "r1", 9, url)
            topics.wal.purger.preview([name])
            handle = await topics.start(name)
            await topics.until(handle, "FLUSHING")
            for signal, then in (("pause", "PAUSED"), ("resume", "FLUSHING")):
                await handle.signal(signal)
                await topics.until(handle, then)
            await handle.signal("purge_now")
            await handle.result()
        found: dict[str, Any] = {"purge-wal-told": await handle.fetch_history()}
        topics.flushed(name, "r1", 180)
        topics.flushed(topics.make(200, "r1", name="lagging-wal"), "r1", 9)
        rig.later(1_801)
        ticked = await served.tick()
        await ticked.result()
        round_ = client.get_workflow_handle(ids.purge_wal_round(DEPLOYMENT))
        await round_.result()
        found["recycle-tick-topics"] = await ticked.fetch_history()
        found["purge-wal-round-scheduled"] = await round_.fetch_history()
    return found


async def record_binlogs(served: Served, scratch: Path) -> dict[str, Any]:
    """Return histories by file name: a look at binlogs that is paused and meets a dead backend; its tick."""
    rig, client, settings = served.rig, served.client, settings_of(served.rig)
    gc = Gc(served, settings, scratch)
    gc.disks["b2"].sweeper().sweep(lambda: None)
    async with await control.build(client, settings, rig.db), gc.worker("b1"):
        gc.commit(1, 2)
        with mock.patch.dict(options.BACKEND_SWEEP, {"schedule_to_start_timeout": dt.timedelta(seconds=1)}):
            handle = await gc.start("pause")
            await gc.until(handle, "PAUSED")
            await handle.signal("resume")
            await handle.result()
        found: dict[str, Any] = {"gc-binlog-told": await handle.fetch_history()}
        rig.later(400)
        ticked = await served.tick()
        await ticked.result()
        await client.get_workflow_handle(ids.gc_binlog(DEPLOYMENT, "shop")).cancel()
        found["recycle-tick-binlogs"] = await ticked.fetch_history()
    return found


def _texts(found: dict[str, Any]) -> dict[str, str]:
    """Return histories as they are kept: who recorded them, and where, is nobody's business."""
    texts = {name: json.dumps(history.to_json_dict(), indent=1) for name, history in found.items()}
    texts = {name: re.sub(r'("identity": )"[^"]*"', r'\1"recorder"', text) for name, text in texts.items()}
    return {name: re.sub(r'("stackTrace": )"(?:[^"\\]|\\.)*"', r'\1""', text) for name, text in texts.items()}


RECORDERS = {
    "rounds": record_rounds,
    "endings": record_endings,
    "purges": record_purges,
    "binlogs": record_binlogs,
}
OPTIONS = {"endings": ["--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=60"]}


async def record(what: str, scratch: Path) -> dict[str, str]:
    """Return the texts of histories by file name, recorded on a server of their own."""
    environment = await start_local(OPTIONS.get(what, []))
    rig = Rig(new_database())
    found = await RECORDERS[what](Served(rig, await DevServer(environment).connect()), scratch)
    await environment.shutdown()
    return _texts(found)


if __name__ == "__main__":
    HISTORIES.mkdir(exist_ok=True)
    for what in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            recorded = asyncio.run(record(what, Path(scratch)))
        for name, text in recorded.items():
            (HISTORIES / f"{name}.json").write_text(text + "\n")
