"""PostgreSQL plans the statements of checks, purges, binlog GCs and ticks without reading another instance's rows."""

from collections.abc import Iterator

import pytest

from config.engine_settings import EngineSettings
from sexton.check.sql import live_side
from sexton.contract import NewMark
from sexton.runtime.engine import Engine
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.database.query_plans import FILL, bad_plans, keep_statistics, maintain, recorded, run_script
from tests.integration.protection.registrations import protect
from tests.integration.replication.binlog_instance import BinlogInstance
from tests.integration.wal.logs import EmbeddedPlace
from tests.integration.wal.topic_stores import TopicStores
from tests.servers.postgres import Cluster
from tests.support.rig import DAY, DEPLOYMENT, put
from tests.support.transactions import owner_write


@pytest.fixture(scope="module", params=[pytest.param("empty", marks=pytest.mark.soak), "full"])
def shop(
    request: pytest.FixtureRequest, postgres: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Owned]:
    """An instance with a vault, beside one that has 20,000 rows of everything."""
    owned = Owned(postgres.new_database())
    keep_statistics(owned.db)
    if request.param == "empty":
        maintain(owned.db, "ANALYZE")
    owned.instance("crowd")
    run_script(owned.db, FILL)
    if request.param == "full":
        maintain(owned.db, "VACUUM ANALYZE")
    with owner_write(owned.db) as c:
        c.exec_driver_sql("CREATE TABLE file (kind text, id text, vault text, key text, bytes bigint)")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT text 'shop' AS instance, * FROM file")
    owned.register(tmp_path_factory.mktemp("vault"))
    yield owned
    owned.db.close()


@pytest.mark.slow
def test_a_check_and_its_repair_read_only_their_instance(shop: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_side, "PART_ROWS", 2)
    keys = file_keys(150)
    shop.mark("dropped", *(NewMark(id=f"w{n}", vault="disk", keys=(f"data/w{n}.dat",)) for n in range(5)))
    shop.write_live(*keys)
    shop.write_old("data/t9/gone_0.dat")
    (shop.root / keys[3]).unlink()
    with recorded(shop.db) as sent:
        shop.check()
        shop.later(DAY + 60)
        report = shop.check()
        marked = shop.repairs.orphans("shop").marked

    assert (report.confirmed, marked) == ({"LOST": 1, "ORPHAN": 1}, 1)
    assert bad_plans(shop.db, sent) == {}


def test_a_purge_reads_only_its_topic(shop: Owned) -> None:
    topics = TopicStores(shop.db, EmbeddedPlace(shop.db))
    topic = topics.mapped_topic(50, "r1")
    topics.flushed(topic, "r1", 29)
    with recorded(shop.db) as sent:
        purged = topics.purge(topic)
        topics.purge(topic)

    assert purged.freed == 29
    assert bad_plans(shop.db, sent) == {}


def test_a_binlog_run_reads_only_its_instance(shop: Owned) -> None:
    binlogs = BinlogInstance(shop.db)
    binlogs.configure_log(ttl=600)
    binlogs.place("t1", "be1", "be2")
    for seq in (10, 20):
        binlogs.commit(seq, orders={"p1": seq})
    for backend in ("be1", "be2"):
        binlogs.report_whole("t1", backend, 20)
    with recorded(shop.db) as sent:
        binlogs.pass_time(1_200)
        binlogs.granted_cuts("be1")

    assert binlogs.log().watermark == 20
    assert bad_plans(shop.db, sent) == {}


def test_protecting_and_ending_read_only_what_is_named(shop: Owned) -> None:
    put(shop.root, "data/m1.dat")
    shop.mark("dropped", NewMark(id="m1", vault="disk", keys=("data/m1.dat",)))
    with recorded(shop.db) as sent:
        protect(shop, "copy", "data/m1.dat", seconds=60)
        shop.later(3 * DAY)
        shop.protections.end_due("shop")
        shop.protections.delete_ended_rows()

    assert bad_plans(shop.db, sent) == {}


def test_a_tick_reads_no_growing_table(shop: Owned) -> None:
    engine = Engine(shop.db, EngineSettings(deployment=DEPLOYMENT))
    with recorded(shop.db) as sent:
        due = engine.stores.round_schedule.due()
        engine.check_schedule.due()
        engine.stores.wal.schedule.any_due()
        engine.stores.wal.schedule.due("", 2_000)
        engine.stores.binlogs.schedule.due()

    assert "shop" in due.instances
    assert bad_plans(shop.db, sent) == {}
