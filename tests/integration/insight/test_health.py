"""The probes answer quickly and truly, whatever hangs, and reveal nothing."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from sexton.database.engine import Database
from sexton.insight import health as health_module
from sexton.insight.health import Health, LoopWatch, ProbeAnswer, database_check
from sexton.insight.metrics.collector import DeploymentRegistry
from sexton.insight.metrics.server import serve
from sexton.runtime.embedded.ports import free_port
from tests.support.clock import Clock
from tests.support.eventually import PATIENCE_SECONDS, eventually_async
from tests.support.rig import DEPLOYMENT, Rig

WELL = ProbeAnswer()


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


def test_only_known_paths_are_answered_with_200(rig: Rig, address: str) -> None:
    health = Health(live={}, ready={"database": database_check(rig.db, DEPLOYMENT)})
    server = serve(address, DeploymentRegistry(DEPLOYMENT), health)
    assert server is not None

    codes = {path: get(address, path)[0] for path in ("/metrics", "/livez", "/readyz", "/metrics?name[]=up")}
    others = {path: get(address, path)[0] for path in ("/", "/metrics/", "/favicon.ico", "/healthz", "/livez/x")}
    body = json.loads(get(address, "/readyz")[1])
    server.shutdown()
    server.server_close()
    assert set(codes.values()) == {200}
    assert set(others.values()) == {404}
    assert body == {"status": "ok"}


def test_a_wrong_schema_or_deployment_is_not_ready(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "CACHE_SECONDS", 0.0)
    health = Health(live={}, ready={"database": database_check(rig.db, DEPLOYMENT)})
    other = Health(live={}, ready={"database": database_check(rig.db, "test-other")})
    before = health.readyz(), other.readyz()
    rig.sql("UPDATE {}alembic_version SET version_num = '9999'")
    rig.sql("UPDATE {}clock SET works_with = '9999'")
    newer = health.readyz()
    rig.sql("UPDATE {}alembic_version SET version_num = '0001'")

    assert before == (WELL, ProbeAnswer(("database",)))
    assert newer == ProbeAnswer(("database",))
    assert health.readyz() == WELL


def test_an_answer_contains_no_address_and_no_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    away = Database.open(f"postgresql://sexton:s3cret-pass@127.0.0.1:{free_port()}/sexton")
    server = serve(address, DeploymentRegistry("d"), Health(live={}, ready={"database": database_check(away, "d")}))
    assert server is not None

    code, body = get(address, "/readyz")
    live, _ = get(address, "/livez")
    server.shutdown()
    server.server_close()
    away.close()
    assert (code, json.loads(body), live) == (503, {"status": "unavailable", "failed": ["database"]}, 200)
    assert "the health check of the database fails" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_hanging_database_does_not_delay_livez(monkeypatch: pytest.MonkeyPatch) -> None:
    end, runs = threading.Event(), []

    def hangs() -> None:
        runs.append(1)
        end.wait(PATIENCE_SECONDS)

    health = Health(live={"event_loop": lambda: None}, ready={"database": hangs, "temporal": lambda: None})
    with monkeypatch.context() as shorter, ThreadPoolExecutor(8) as threads:
        shorter.setattr(health_module, "DEADLINE_SECONDS", 0.2)
        answers = list(threads.map(lambda _: health.readyz(), range(8)))
    live = health.livez()  # with its real deadline: a busy machine may take 0.2 s to start its check
    end.set()

    assert {a.failed[0] for a in answers} == {"database"}
    assert live == WELL
    assert len(runs) == 1  # however many ask


def test_results_are_reused_for_a_moment() -> None:
    runs: list[int] = []
    health = Health(live={}, ready={"database": lambda: runs.append(1)})

    assert {health.readyz() for _ in range(20)} == {WELL}
    assert len(runs) < 20


async def test_livez_fails_while_the_event_loop_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "CACHE_SECONDS", 0.0)
    clock = Clock()
    monkeypatch.setattr(health_module, "time", clock)
    health = Health(live={"event_loop": LoopWatch(asyncio.get_running_loop()).check}, ready={})

    before = await asyncio.to_thread(health.livez)
    clock.sleep(health_module.LOOP_SECONDS + 1)
    with ThreadPoolExecutor(1) as thread:
        during = thread.submit(health.livez).result()  # in the loop, which it blocks

    async def is_well() -> bool:
        return await asyncio.to_thread(health.livez) == WELL

    assert (before, during) == (WELL, ProbeAnswer(("event_loop",)))
    await eventually_async("the loop turns again", is_well)
