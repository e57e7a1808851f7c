"""Spark sessions are shared, can be opened again, and are interrupted by the attempt that takes over."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sexton.runtime.spark import deletion, session
from sexton.runtime.spark.session import Sessions, SparkFailed
from tests.support.eventually import PATIENCE_SECONDS, eventually

TICKS = 300


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_session_is_shared_and_can_be_opened_again(sessions: Sessions) -> None:
    def works(one: Any) -> bool:
        return bool(one.range(3).count() == 3)

    with sessions.of("a") as first:
        with sessions.of("b") as second:
            assert first is second
        assert works(first)
    for _ in range(8):
        with sessions.of("a") as again:
            assert works(again)
            again.client.release_session()  # as a server does with one that was idle for long
    with sessions.of("a") as last:
        assert works(last)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_takeover_interrupts_jobs_of_the_same_batch(sessions: Sessions, tmp_path: Path) -> None:
    """An attempt that was silent for too long still runs, on the same worker; another one begins."""
    file = tmp_path / "ticks"
    ticks = str(file)

    def ticking(batches: Any) -> Any:
        for batch in batches:
            for _ in range(TICKS):
                with Path(ticks).open("a") as out:
                    out.write("x")
                time.sleep(0.1)
            yield batch

    with sessions.of("batch") as old, ThreadPoolExecutor(1) as pool:
        told = pool.submit(
            session.tagged,
            old,
            {"batch", "batch-1"},
            old.range(0, 1, 1, 1).mapInArrow(ticking, "id long").collect,
        )
        eventually("its job runs", file.exists)
        with sessions.of("batch"):
            with pytest.raises(SparkFailed):
                told.result(PATIENCE_SECONDS)
            ended = -1
            while file.stat().st_size != ended:  # Python goes on for a while after its job
                ended = file.stat().st_size
                time.sleep(1.5)
            assert ended < TICKS
        session.interrupt(old, "batch-1", [told])  # failed here, so it is told to stop once more, and that ends


def test_equal_code_gives_an_equal_archive(tmp_path: Path) -> None:
    first = session.archive(tmp_path)
    content = first.read_bytes()
    os.utime(deletion.__file__, (time.time() - 86_400, time.time() - 86_400))
    second = session.archive(tmp_path)

    assert second == first
    assert second.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == [first.name]


@pytest.mark.slow  # Java starts twice, and the client waits for the lost server
@pytest.mark.timeout(120)
def test_a_lost_server_is_given_up_within_a_minute(tmp_path: Path) -> None:
    running, file = Sessions("local[1]", {"spark.driver.memory": "512m"}, tmp_path), tmp_path / "runs"
    runs = str(file)

    def sleeping(batches: Any) -> Any:
        Path(runs).touch()
        time.sleep(60)
        yield from batches

    try:
        with running.of("x") as one, ThreadPoolExecutor(1) as pool:
            told = pool.submit(
                session.tagged, one, {"x"}, one.range(0, 1, 1, 1).mapInArrow(sleeping, "id long").collect
            )
            eventually("its job runs", file.exists)
            assert running._server is not None
            running._server.child.kill()
            began = time.monotonic()
            ended = threading.Event()
            threading.Thread(target=lambda: (session.interrupt(one, "x", [told]), ended.set()), daemon=True).start()
            assert ended.wait(PATIENCE_SECONDS)
        print(f"given up after {time.monotonic() - began:.0f} s")
        with pytest.raises(SparkFailed, match="server has ended"), running.of("y"):
            pass
    finally:
        running.close()
