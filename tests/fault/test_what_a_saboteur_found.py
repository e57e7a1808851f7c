"""Attacks that once worked, each as a test: what they lost, or what they stopped for ever."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from sexton import contract
from sexton.contract import NewMark, Refused
from sexton.kernel.crash_points import installed
from sexton.storage.model import MARKER_KEY
from tests.fault.conftest import Faulty
from tests.fault.test_crashes import Crash, CrashAt
from tests.servers.postgres import Cluster
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(f"sqlite:///{tmp_path / 'sexton.db'}").instance()


@pytest.fixture
def pg(postgres: Cluster) -> Rig:
    return Rig(postgres.create_database()).instance()


def test_a_late_file_that_failed_once_is_asked_about_again(faulty: Faulty) -> None:
    rig = faulty.rig
    with rig.db.write() as c:
        c.execute(text("CREATE TABLE sexton_live (kind text, id text, vault text, key text)"))
    faulty.put("p/a")
    rig.mark("dropped", NewMark(id="p", vault="cold", prefix="p/"))
    rig.later(10_801)
    rig.round()
    faulty.put("p/late")
    rig.later(3_601)
    faulty.proxy.fail_keys({"p/late": "AccessDenied"}, times=1)
    with installed(CrashAt("marks.removed")), pytest.raises(Crash):
        rig.round()
    with rig.db.write() as c:
        c.execute(text("INSERT INTO sexton_live VALUES ('rowset', 'r', 'cold', 'p/late')"))
    rig.later(61)

    report = rig.round()

    assert set(faulty.listing()) == {"p/late"}
    assert (report.deleted, kept_texts(report)) == (0, {"live": 1})


def test_undrop_remembers_a_gone_child_as_long_as_its_parent_is_marked(rig: Rig, tmp_path: Path) -> None:
    put(rig.local(tmp_path / "v"), "t/c.dat")
    rig.mark("own", NewMark(id="table", vault="disk", keys=("t/other.dat",)))
    rig.mark("dropped", NewMark(id="child", vault="disk", keys=("t/c.dat",), parent=("own", "table")))
    rig.later(10_801)
    rig.round()
    rig.later(31 * 86_400)
    rig.round()

    with pytest.raises(Refused, match="its descendant dropped child is gone"), rig.db.write() as c:
        contract.undrop(c, "shop", "own", ["table"])


def test_a_disk_unmounted_between_proof_and_delete_loses_no_record(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "d/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("d/a.dat",)))
    rig.later(10_801)
    get = rig.vaults.get

    def unmount_after(instance: str, name: str):  # type: ignore[no-untyped-def]
        vault = get(instance, name)
        if threading.current_thread().name.startswith("delete"):
            root.rename(tmp_path / "elsewhere")
            (tmp_path / "v" / "d").mkdir(parents=True)
        return vault

    rig.vaults.get = unmount_after  # type: ignore[method-assign]
    report = rig.round()

    assert (report.absent, report.removed, report.waiting) == (0, 0, 1)
    assert listing(tmp_path / "elsewhere") == {"d/a.dat": 10}


def test_a_gone_id_marked_anew_from_an_old_snapshot_stops_nobody(pg: Rig, tmp_path: Path) -> None:
    root = pg.local(tmp_path / "v")
    put(root, "a.dat")
    put(root, "b.dat")
    pg.later(10)  # the rest of the test lets real time pass over a mark's age instead of moving the clock
    pg.sql("ALTER TABLE {}clock DISABLE TRIGGER ALL")
    pg.sql("UPDATE {}clock SET offset_seconds = 0")
    owner = create_engine(pg.url, isolation_level="REPEATABLE READ").connect()
    owner.execute(text("SELECT count(*) FROM sexton.mark_history")).scalar()
    insert = (
        "INSERT INTO {}mark (instance, kind, id, vault, keys) VALUES ('shop', 'dropped', 'm', 'disk', '[\"a.dat\"]')"
    )
    old = "UPDATE {}mark SET marked_at = marked_at - interval '4 hours'"
    pg.sql(insert)
    pg.sql(old)
    pg.round()
    owner.execute(text(insert.replace("{}", "sexton.")))
    owner.commit()
    pg.mark("dropped", NewMark(id="n", vault="disk", keys=("b.dat",)))
    pg.sql(old)

    report = pg.round()

    assert (report.state, report.removed) == ("SUCCEEDED", 2)
    assert listing(root) == {}


def test_an_open_undrop_keeps_its_own_instance_waiting_and_no_round_hanging(pg: Rig, tmp_path: Path) -> None:
    root = pg.local(tmp_path / "v")
    put(root, "a.dat")
    for name in ("m", "other"):
        pg.mark("dropped", NewMark(id=name, vault="disk", keys=("a.dat",)))
    pg.later(10_801)
    owner = pg.db.engine.connect()

    def undrop_and_stay(name: str) -> None:
        if name == "resolve.stored":
            contract.undrop(owner, "shop", "dropped", ["other"])

    with installed(undrop_and_stay):
        report = pg.round()
    owner.rollback()
    owner.close()

    assert kept_texts(report) == {"owner's transaction": 2}
    assert listing(root) == {"a.dat": 10}


def test_an_expiry_finer_than_a_millisecond_does_not_keep_a_range_for_ever(pg: Rig, tmp_path: Path) -> None:
    root = pg.local(tmp_path / "v")
    pg.sql("SELECT {}prepare('shop', 't', ARRAY['m'], 'disk', ARRAY['p/'], interval '60.0005 seconds')")
    pg.later(400_000)
    (root / MARKER_KEY).unlink()

    report = pg.round()

    assert kept_texts(report) == {"vault disk: NO_MARKER": 1}


@pytest.mark.parametrize("value", ["1.5", "'abc'", "x'00'", "9223372036854775807", "-1"])
def test_no_odd_size_gets_in(rig: Rig, value: str) -> None:
    names = "(instance, kind, id, vault, keys, bytes)"

    with pytest.raises(IntegrityError, match="bytes_are_0_to_1_pib"):
        rig.sql(f"INSERT INTO {{}}mark {names} VALUES ('shop', 'dropped', 'm', 'disk', '[\"a\"]', {value})")


def test_no_id_that_is_bytes_gets_in(rig: Rig) -> None:
    names = "(instance, kind, id, vault, keys)"

    with pytest.raises(IntegrityError, match="names_are_text"):
        rig.sql(f"INSERT INTO {{}}mark {names} VALUES ('shop', 'dropped', x'6d', 'disk', '[\"a\"]')")


def test_a_mark_set_aside_for_failed_deletes_is_tried_again_a_day_later(faulty: Faulty) -> None:
    faulty.put("a.dat")
    faulty.rig.mark("dropped", NewMark(id="m", vault="cold", keys=("a.dat",)))
    faulty.rig.later(10_801)
    faulty.proxy.fail_keys({"a.dat": "AccessDenied"}, times=8)
    for _ in range(9):
        faulty.rig.round()
    assert set(faulty.listing()) == {"a.dat"}
    faulty.rig.later(86_401)

    report = faulty.rig.round()

    assert (report.removed, faulty.listing()) == (1, {})


def test_a_vault_added_while_a_round_resolves_sets_nothing_aside(rig: Rig, tmp_path: Path) -> None:
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    quarantine = rig.stores.quarantine.quarantine

    def added_meanwhile(token, problems) -> None:  # type: ignore[no-untyped-def]
        if problems:
            rig.local(tmp_path / "v")
        quarantine(token, problems)

    rig.stores.quarantine.quarantine = added_meanwhile  # type: ignore[method-assign]
    rig.round()

    assert rig.row("dropped", "m").quarantined_reason is None


def test_a_dead_round_and_its_plan_are_closed_by_the_next_one(rig: Rig, tmp_path: Path) -> None:
    put(rig.local(tmp_path / "v"), "a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    with installed(CrashAt("claim.committed")), pytest.raises(Crash):
        rig.round(run="terminated", plan=rig.plan().id)
    rig.later(61)

    rig.round()

    assert rig.count("round", state="RUNNING") == 0
    assert rig.count("plan", state="APPLYING") == 0


def test_a_round_that_only_observes_leaves_its_plan_to_be_applied(tmp_path: Path) -> None:
    rig = Rig(f"sqlite:///{tmp_path / 'sexton.db'}").instance(enable=False)
    put(rig.local(tmp_path / "v"), "a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    observed = rig.round()
    rig.registry.enable("shop")

    assert rig.round(plan=observed.plan).deleted == 1


@pytest.mark.parametrize("call", ["undrop('shop', 'dropped', ARRAY['m', NULL])", "commit('shop', NULL)"])
def test_ids_that_are_null_are_refused(pg: Rig, call: str) -> None:
    pg.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))

    with pytest.raises(DBAPIError, match="SX006"):
        pg.sql(f"SELECT {{}}{call}")

    assert pg.count("mark") == 1
