"""A check understands every form of names in records, marks and live views; texts that nothing can have are cut."""

import unicodedata

import pytest
from sqlalchemy import text

from sexton.check import columns
from sexton.check.model import RunState
from sexton.check.sql.repair import RepairRefused
from sexton.contract import NewMark
from sexton.marks.live import MOST_KEY, MOST_SHOWN, short_key
from sexton.marks.model import DueMark
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_view
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.check.conftest import live_view as shown_view
from tests.servers.s3 import RunningS3
from tests.support.rig import DAY, Rig
from tests.support.transactions import owner_write

ANY = r"data/.*\.dat"


def test_a_live_prefix_covers_its_files_in_every_spelling(owned: Owned) -> None:
    owned.registry.set_key_pattern("shop", ANY)
    folders = {
        "data/caf\u00e9/": unicodedata.normalize("NFD", "data/caf\u00e9/"),
        "data/dt%201/": "data/dt 1/",
        "data//x/": "data/x/",
        "/data/y/": "data/y/",
        "data/dt=a:b/": "data/dt=a%3Ab/",
    }
    owned.live_rows(*((written, None) for written in folders))
    owned.orphaned(*(f"{folder}r_0.dat" for folder in folders.values()))

    assert owned.open_findings() == {}


def test_k18_a_vault_without_live_rows_makes_the_check_partial(owned: Owned) -> None:
    other = owned.local(owned.root.parent / "other", "other")
    small = file_keys(4, "s")
    owned.write_live(*file_keys(500))
    root, owned.root = owned.root, other
    for key in small:
        owned.write_old(key)
    owned.root = root
    owned.live_rows(*((key, 10) for key in small), vault="other")
    assert owned.check().whole
    with owner_write(owned.db) as c:
        c.execute(text("UPDATE file SET vault = 'Other' WHERE vault = 'other'"))
    for _ in range(2):
        report = owned.check(after=DAY + 60)

    assert report.run.state is RunState.PARTIAL
    assert any("vault other" in lack for lack in report.run.missing_inputs)
    assert report.run.evidence is not None
    assert "Other" in str(report.run.evidence.notes)
    with pytest.raises(RepairRefused):
        owned.repairs.orphans("shop")


def test_a_mark_without_a_known_vault_covers_every_vault(owned: Owned) -> None:
    owned.mark("dropped", NewMark(id="d8", vault=None, prefix="data/t8/"))
    owned.mark("dropped", NewMark(id="d9", vault="dsk", keys=("data/t9/r7_0.dat",)))
    owned.orphaned("data/t8/r7_0.dat", "data/t9/r7_0.dat")

    assert owned.open_findings() == {}


LOST_ROWS = [
    ("file://{root}/data/t9/a_0.dat", 10),
    ("file://localhost{root}/data/t9/b_0.dat", 10),
    ("data/t9/c_0.dat", 10),
    ("data/t9/copy(1)", 10),  # a row with a size is an object, whatever its name
    ("data/t9/YWJj=", 10),
    ("data//t7/", None),  # prefixes that no vault can have
    ("data/../t8/", None),
    ("_sexton/", None),
]


def test_a_lost_file_or_prefix_is_confirmed_in_every_spelling(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    owned.live_rows(*((written.format(root=owned.root), size) for written, size in LOST_ROWS))

    assert owned.check().confirmed == {"LOST": len(LOST_ROWS)}


def test_n2_a_key_that_means_no_object_proves_nothing(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    owned.write_old("data/t9/r7_0.dat")
    for key in ("/data/t9/x_0.dat", "//data/t9/x_0.dat", "s3://b/data/t9/x_0.dat", "gs://b/x", "/"):
        owned.live_rows((key, 10))
        report = owned.check()
        owned.forget(key)

        assert (report.whole, report.found) == (False, {}), key
        assert "write keys relative to the vault" in report.run.missing_inputs[0]


def test_impossible_keys_do_not_stop_the_check(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    for key in ("data//t9/x_0.dat", "data/a://b", "data/../x", "_sexton/x", "data/a%00b", "data/%2e%2e/x"):
        owned.live_rows((key, 10))
    for n, keys in enumerate(("[1]", "[null]", '["s3://x/y"]', '[["a"]]', '["data/a://b"]')):
        owned.sql(
            "INSERT INTO {}mark (instance, kind, id, vault, keys)"
            " VALUES ('shop', 'dropped', :id, 'disk', CAST(:keys AS jsonb))",
            id=f"bad{n}",
            keys=keys,
        )

    assert owned.check().whole


def test_an_owner_that_shows_only_prefixes_is_checked(owned: Owned) -> None:
    owned.write_old("data/t1/r1_0.dat")
    owned.write_old("data/t2/r1_0.dat")
    owned.live_rows(("data/t1/", None))
    report = owned.check()

    assert (report.whole, owned.open_findings()) == (True, {"ORPHAN": {"data/t2/r1_0.dat"}})


def test_a_view_may_compute_sizes_as_sums(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    with owner_write(owned.db) as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
        c.exec_driver_sql(
            "CREATE VIEW sexton_live AS SELECT kind, id, vault, key, sum(bytes) AS bytes FROM file "
            "GROUP BY kind, id, vault, key"
        )

    assert owned.check().whole


def test_a_view_without_a_needed_column_proves_nothing(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    with owner_write(owned.db) as c:
        c.exec_driver_sql("ALTER VIEW sexton_live RENAME TO complete")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT kind, id, vault FROM file")
    keyless = owned.check()
    with owner_write(owned.db) as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
        c.exec_driver_sql("ALTER VIEW complete RENAME TO sexton_live")
    owned.registry.add_instance("toys")
    assert owned.check().whole
    owned.registry.set_live_view("toys", owned.registry.instance("shop").live_view)

    assert (keyless.run.state, keyless.found) == (RunState.PARTIAL, {})
    assert "cannot be read" in keyless.run.missing_inputs[0]
    assert "no column instance" in owned.check().run.missing_inputs[0]


LONG = 'x/%25"é' * 100_000


def show(owned: Owned, *, key: str = "k", id_: str = "i", vault: str = "disk") -> None:
    with owner_write(owned.db) as c:
        row = {"id": id_, "vault": vault, "key": key}
        c.execute(text("INSERT INTO file VALUES ('file', :id, :vault, :key, 7)"), row)


def test_a_long_key_is_a_loss_that_a_check_can_store(database_url: str, s3_server: RunningS3, bucket: str) -> None:
    owned = Owned(database_url, endpoint_url=s3_server.endpoint_url)
    owned.instance()
    owned.s3(bucket)
    with shown_view(owned):
        show(owned, key=LONG, vault="cold")
        show(owned, key=LONG + "2", vault="cold")
        owned.check()
        checked = owned.check(after=DAY + 60)
    owned.db.close()

    assert checked.run.state is RunState.WHOLE
    assert checked.confirmed == {"LOST": 1}
    assert {len(key.encode()) <= 1_024 for key in owned.open_findings()["LOST"]} == {True}


def test_long_texts_of_a_live_row_are_cut(owned: Owned) -> None:
    owned.write_live(*file_keys(3))
    show(owned, key="data/a", id_=LONG)
    show(owned, key=LONG, id_=LONG)
    mark = DueMark("dropped", "m", 0, "disk", None, ("data/a",), 0)

    [shown] = owned.owner.live("shop", [mark], lambda: None).values()
    with owned.db.read() as c:
        name = owned.registry.instance("shop").live_view
        [row] = live_view.rows_of(live_view.load(c, name, "shop"), ["data/a"], ["shop"], 100)
    with owned.live_side.snapshot("shop") as moment:
        read = [page for part in moment.parts for page in owned.live_side.read("shop", moment.name, part) if len(page)]
        pages = [columns.records(page) for page in read]

    assert len(shown) < 2_000
    assert len(row[2]) == MOST_SHOWN
    assert max(len(key) for page in pages for key in page["key"].to_pylist()) == MOST_KEY
    assert max(len(record) for page in pages for record in page["record"].to_pylist()) < 2 * MOST_SHOWN
    assert owned.check().run.state is RunState.WHOLE
    show(owned, vault=LONG)
    with pytest.raises(OwnerSilent, match="whose name is too long"):
        Rig(owned.url).owner.live("shop", [mark], lambda: None)  # a worker that has not looked at the view yet


def test_short_keys_stay_and_long_ones_stay_different() -> None:
    assert short_key("k" * 1_024) == "k" * 1_024
    assert short_key("é" * 513) != short_key("é" * 514)
    assert len(short_key("é" * 100_000).encode()) <= 1_024
