"""Spark sessions are shared, opened again and interrupted by a take-over; Spark starts on the wheel's Java."""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sexton.runtime.spark import deletion, session
from sexton.runtime.spark.session import Sessions, SparkFailed
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.unit.runtime.spark.test_server import FOREIGN

pytestmark = pytest.mark.slow

TICKS = 300


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


PROXY = "http://127.0.0.1:9"
PROXIES = {"http_proxy": PROXY, "grpc_proxy": PROXY, "NO_PROXY": "", "no_proxy": ""}
JAVA_VERSION = "select java_method('java.lang.System', 'getProperty', 'java.specification.version') as version"


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every program of the machine in the PATH, except Java, and set the variables of another Spark."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in os.get_exec_path():
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    for name, value in (FOREIGN | PROXIES | {"CLASSPATH": "/nowhere", "PATH": str(programs)}).items():
        monkeypatch.setenv(name, value)


def _places(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"python": [sys.executable], "scratch": [tempfile.gettempdir()]})


@pytest.mark.usefixtures("foreign")
def test_spark_needs_no_java_and_a_lost_server_is_given_up(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "runs"
    running, runs = Sessions("local[1]", {"spark.driver.memory": "512m"}, home), str(file)

    def sleeping(batches: Any) -> Any:
        Path(runs).touch()
        time.sleep(60)
        yield from batches

    try:
        with running.of("x") as one, ThreadPoolExecutor(1) as pool:
            assert one.sql("select sum(id) as total from range(1000)").collect()[0].total == 499_500
            [places] = one.range(0, 1, 1, 1).mapInArrow(_places, "python string, scratch string").collect()
            assert (one.sql(JAVA_VERSION).collect()[0].version, places.python) == ("25", sys.executable)
            assert Path(places.scratch).parent == home / "spark"
            told = pool.submit(
                session.tagged, one, {"x"}, one.range(0, 1, 1, 1).mapInArrow(sleeping, "id long").collect
            )
            eventually("its job runs", file.exists)
            assert running._server is not None
            running._server.child.kill()
            ended = threading.Event()
            threading.Thread(target=lambda: (session.interrupt(one, "x", [told]), ended.set()), daemon=True).start()
            assert ended.wait(PATIENCE_SECONDS)
        with pytest.raises(SparkFailed, match="server has ended"), running.of("y"):
            pass
    finally:
        running.close()
    assert [path.name for path in (home / "spark").iterdir() if path.suffix != ".zip"] == []
