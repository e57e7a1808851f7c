"""A scrape never fails and never exports outdated figures, whatever is broken."""

import logging
import socket
import threading
import urllib.request
from functools import partial

import pytest

from sexton.database.engine import Database
from sexton.insight.health import Health
from sexton.insight.metrics import server as server_of_metrics
from sexton.insight.metrics.collector import DeploymentRegistry, FigureCollector
from sexton.insight.metrics.figures.store import LEASE_MS, FigureStore
from sexton.insight.metrics.model import HOLDERS, OTHER, REASONS, Figures, InstanceFigures
from sexton.insight.metrics.server import MAX_CONNECTIONS, serve
from sexton.kernel.errors import BadInput
from sexton.marks.kept import by_hold, by_owner_silence
from sexton.recycle.model import RoundReport
from sexton.runtime.embedded.ports import free_port
from tests.support.eventually import eventually
from tests.support.rig import DEPLOYMENT, INTERVAL, Rig, stores_of
from tests.support.scrape import collector, scrape

HEALTH = Health(live={}, ready={})
NOTHING = Figures(now=0, interval_seconds=60)


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


def test_a_second_worker_takes_the_next_free_port(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, caplog.at_level(logging.WARNING):
        address = f"127.0.0.1:{other.getsockname()[1]}"
        servers = [serve(address, DeploymentRegistry(DEPLOYMENT), HEALTH) for _ in range(2)]
        ports = [server.server_port for server in servers if server is not None]
        answers = [urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=10).status for port in ports]
        for server in servers:
            assert server is not None
            server.shutdown()
            server.server_close()

    said = [record.getMessage() for record in caplog.records]
    assert (len(set(ports)), answers) == (2, [200, 200])
    assert said == [f"{address} is in use; the next free port is {port}" for port in ports]


def test_where_no_port_is_free_a_worker_works_without(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_of_metrics, "PORTS", 1)
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))):
        assert serve(address, DeploymentRegistry(DEPLOYMENT), HEALTH) is None

    assert f"cannot listen on {address}" in caplog.text
    assert "SEXTON_METRICS__LISTEN" in caplog.text


def test_without_an_address_that_is_possible_no_server_listens(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert serve("", DeploymentRegistry(DEPLOYMENT), HEALTH) is None
    assert caplog.text == ""
    for listen in ("127.0.0.1:99999", "no-such-host.invalid:9000"):
        assert serve(listen, DeploymentRegistry(DEPLOYMENT), HEALTH) is None
        assert f"cannot listen on {listen}" in caplog.text


def test_a_scrape_without_database_shows_no_old_figures(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    ours = collector(rig)
    before = scrape(ours)
    rig.sql("ALTER TABLE {}counter RENAME TO away")
    during = [scrape(ours), scrape(ours)]
    rig.sql("ALTER TABLE {}away RENAME TO counter")

    after = scrape(ours)
    assert before("sexton_instance_enabled", instance_id="shop") == 1
    assert [s("sexton_up") for s in during] == [0, 0]
    assert [s("sexton_scrape_errors_total") for s in during] == [1, 2]
    assert during[0]("sexton_instance_enabled", instance_id="shop") is None
    assert during[0]("sexton_round_interval_seconds") is None
    assert (after("sexton_up"), after("sexton_scrape_errors_total")) == (1, 2)
    assert after("sexton_instance_enabled", instance_id="shop") == 1
    assert len([r for r in caplog.records if r.name.startswith("sexton.insight.metrics")]) == 1


def test_a_database_password_is_not_exported_or_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    away = Database.open(f"postgresql://sexton:s3cret-pass@127.0.0.1:{free_port()}/sexton?password=s3cret-too")

    with caplog.at_level(logging.DEBUG):
        found = scrape(collector(rig, db=away))
    away.close()
    assert found("sexton_up") == 0
    assert "cannot" in caplog.text or "could not" in caplog.text
    assert "s3cret" not in found.text
    assert "s3cret" not in caplog.text


def test_one_unreadable_report_costs_only_its_own_figures(rig: Rig) -> None:
    rig.instance("other")
    for name in ("shop", "other"):
        rig.round(name)
    switched_off = scrape(collector(rig, stats=False))
    rig.sql("UPDATE {}round SET report = '{\"round\": \"no number\"}' WHERE instance = 'shop'")

    found = scrape(rig)
    assert switched_off.starting_with("recycler_") == {}
    assert switched_off("sexton_rounds_total", instance_id="shop") == 1
    assert found("sexton_up") == 1
    assert found("sexton_scrape_errors_total") == 1
    assert found("recycler_instance_recycle_end_ts", instance_id="shop") is None
    assert found("recycler_instance_recycle_end_ts", instance_id="other") is not None
    assert found("sexton_rounds_total", instance_id="shop") == 1


def test_a_scrape_answers_despite_any_error() -> None:
    for error in (BadInput("no"), RuntimeError("a defect")):

        def read(error: Exception = error) -> Figures:
            raise error

        found = scrape(FigureCollector(read, {}))
        assert (found("sexton_up"), found("sexton_scrape_errors_total")) == (0, 1)


def test_scrapes_close_together_read_once() -> None:
    looks: list[int] = []

    def read() -> Figures:
        looks.append(1)
        return NOTHING

    kept, fresh = FigureCollector(read, {}, cache_seconds=60), FigureCollector(read, {}, cache_seconds=0)
    for _ in range(3):
        scrape(kept)
    once = len(looks)
    for _ in range(3):
        scrape(fresh)

    assert (once, len(looks)) == (1, 4)


def test_labels_stay_few_however_many_names_occur() -> None:
    kept = {by_hold(n): 1 for n in range(500)} | {by_owner_silence(f"error {n}"): 1 for n in range(500)}
    report = RoundReport(round=1, instance="shop", kept=kept, vaults={"cold": "x" * 500})
    figures = NOTHING.model_copy(
        update={
            "instances": (InstanceFigures(instance="shop", enabled=True, last=report, quarantined={"free text": 3}),),
            "counters": {("shop", "vault", f"cold/strange {n}"): 1 for n in range(500)},
        }
    )

    found = scrape(FigureCollector(lambda: figures, {}))
    assert found.values("holder") == set(HOLDERS)
    assert found.values("reason") == set(REASONS)
    assert found.values("status") == {OTHER}
    assert found("sexton_last_round_held_marks", instance_id="shop", holder="hold") == 500
    assert found("sexton_quarantined_marks", instance_id="shop", reason="other") == 3
    assert found("recycler_vault_recycle_status", instance_id="shop", resource_id="cold", status="other") == 500


def test_silent_connections_take_no_thread_from_the_worker(address: str) -> None:
    """Anyone in the network may open them; a probe is answered all the same, or the worker would be restarted."""
    server = serve(address, DeploymentRegistry(DEPLOYMENT), HEALTH)
    assert server is not None
    host, _, port = address.rpartition(":")
    before = threading.active_count()
    silent = [socket.create_connection((host, int(port)), timeout=5) for _ in range(MAX_CONNECTIONS + 20)]
    for connection in silent[:10]:
        assert connection.recv(1) == b""  # closed: newer ones took its place
    answers = [urllib.request.urlopen(f"http://{address}/livez", timeout=10).status for _ in range(3)]
    few = eventually("threads of closed connections end", lambda: threading.active_count() - before <= MAX_CONNECTIONS)
    for connection in silent:
        connection.close()
    server.shutdown()
    server.server_close()

    assert answers == [200, 200, 200]
    assert few


def test_one_process_exports_the_figures_of_the_database(rig: Rig) -> None:
    figures = FigureStore(rig.db, stores_of(rig.db).insight, rig.policy, INTERVAL)

    def scraped(process: str) -> tuple[object, object, object]:
        pages = {("shop", "disk"): 2}
        found = scrape(FigureCollector(partial(figures.read_alone, process), pages))
        busy = found("recycler_vault_recycle_task_concurrency", instance_id="shop", resource_id="disk")
        return found("sexton_up"), busy, found("sexton_holds", instance_id="shop")

    assert [scraped(process) for process in "aba"] == [(1, 2, 0), (1, 2, None), (1, 2, 0)]

    rig.later(LEASE_MS // 1000 + 1)  # the first one was not scraped for so long
    assert [scraped(process) for process in "ba"] == [(1, 2, 0), (1, 2, None)]


def test_figures_of_all_instances_are_sums_or_the_largest() -> None:
    instances = tuple(
        InstanceFigures(
            instance=f"i{n}", enabled=True, holds=n, failures=n, quiet_since=1_000 * n, quarantined={"BAD_KEY": n}
        )
        for n in (1, 2, 3)
    )
    counters = {(f"i{n}", "rounds", "*"): n for n in (1, 2, 3)}
    figures = NOTHING.model_copy(update={"now": 10_000, "instances": instances, "counters": counters})

    found = scrape(FigureCollector(lambda: figures, {("i1", "disk"): 2, ("i2", "disk"): 3}, per_instance=False))
    assert found.values("instance_id") == set()
    assert (found("sexton_holds"), found("sexton_instance_enabled"), found("sexton_rounds_total")) == (6, 3, 6)
    assert (found("sexton_rounds_failed_in_a_row"), found("sexton_seconds_since_success")) == (3, 9)
    assert found("sexton_quarantined_marks", reason="BAD_KEY") == 6
    assert found("recycler_vault_recycle_task_concurrency", resource_id="disk") == 5


def test_a_scrape_is_as_long_for_many_instances_as_for_one() -> None:
    def size(number: int) -> int:
        report = RoundReport(round=1, instance="shop", vaults={"disk": "normal"})
        of_each = [
            InstanceFigures(instance=f"i{n}", enabled=True, kinds=("dropped",), last=report) for n in range(number)
        ]
        figures = NOTHING.model_copy(update={"instances": tuple(of_each)})
        return len(scrape(FigureCollector(lambda: figures, {}, per_instance=False)).text)

    assert size(200) < 1.1 * size(1)
