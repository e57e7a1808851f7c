"""Undrops and marks in old or open transactions, and impossible values from an owner, do no harm and block no round."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from sexton import contract
from sexton.contract import NewMark, Refused
from sexton.kernel.crash_points import installed
from sexton.storage.model import MARKER_KEY
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put


def test_undrop_of_a_parent_with_a_deleted_child_is_refused(rig: Rig, tmp_path: Path) -> None:
    put(rig.local(tmp_path / "v"), "t/c.dat")
    rig.mark("own", NewMark(id="table", vault="disk", keys=("t/other.dat",)))
    rig.mark("dropped", NewMark(id="child", vault="disk", keys=("t/c.dat",), parent=("own", "table")))
    rig.later(10_801)
    rig.round()
    rig.later(31 * 86_400)
    rig.round()

    with pytest.raises(Refused, match="its descendant dropped child is gone"), rig.db.write() as c:
        contract.undrop(c, "shop", "own", ["table"])


def test_deleted_id_marked_from_an_old_snapshot_blocks_nothing(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "a.dat")
    put(root, "b.dat")
    rig.later(10)  # the rest of the test lets real time pass over a mark's age instead of moving the clock
    rig.sql("ALTER TABLE {}clock DISABLE TRIGGER ALL")
    rig.sql("UPDATE {}clock SET offset_seconds = 0")
    owner = create_engine(rig.url, isolation_level="REPEATABLE READ").connect()
    owner.execute(text("SELECT count(*) FROM sexton.mark_history")).scalar()
    insert = (
        "INSERT INTO {}mark (instance, kind, id, vault, keys) VALUES ('shop', 'dropped', 'm', 'disk', '[\"a.dat\"]')"
    )
    old = "UPDATE {}mark SET marked_at = marked_at - interval '4 hours'"
    rig.sql(insert)
    rig.sql(old)
    rig.round()
    owner.execute(text(insert.replace("{}", "sexton.")))
    owner.commit()
    rig.mark("dropped", NewMark(id="n", vault="disk", keys=("b.dat",)))
    rig.sql(old)

    report = rig.round()

    assert (report.state, report.removed) == ("SUCCEEDED", 2)
    assert listing(root) == {}


@pytest.mark.slow
def test_open_undrop_blocks_claims_and_the_round_still_ends(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "a.dat")
    for name in ("m", "other"):
        rig.mark("dropped", NewMark(id=name, vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    owner = rig.db.engine.connect()

    def undrop_and_stay(name: str) -> None:
        if name == "resolve.stored":
            contract.undrop(owner, "shop", "dropped", ["other"])

    with installed(undrop_and_stay):
        report = rig.round()
    owner.rollback()
    owner.close()

    assert kept_texts(report) == {"owner's transaction": 2}
    assert listing(root) == {"a.dat": 10}


def test_expiry_finer_than_a_millisecond_does_not_block_a_range(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    rig.sql("SELECT {}prepare('shop', 't', ARRAY['m'], 'disk', ARRAY['p/'], interval '60.0005 seconds')")
    rig.later(400_000)
    (root / MARKER_KEY).unlink()

    report = rig.round()

    assert kept_texts(report) == {"vault disk: NO_MARKER": 1}


TTLS = {
    "0.0005 seconds": False,
    "8784 hours": True,
    "8784 hours 1 second": False,
    "12 mons 1 hour": True,
    "12 mons 6 days": False,
    "100000 mons -2999999 days": False,
    "-100000 mons +3000001 days": False,
    "-24300 mons +729001 days": False,
    "-60000 mons +1800001 days": False,
    "1000000 mons -29999999 days": False,
    "178000000 years": False,
    "-178000000 years": False,
}


def test_time_to_live_is_judged_by_its_instant(rig: Rig) -> None:
    for number, (ttl, good) in enumerate(TTLS.items()):
        call = f"SELECT {{}}prepare('shop', 't{number}', ARRAY['m{number}'], 'disk', ARRAY['p/'], interval '{ttl}')"
        if good:
            rig.sql(call)
        else:
            with pytest.raises(DBAPIError, match="SX006 txn_ttl"):
                rig.sql(call)

        assert rig.count("mark", id=f"m{number}") == good, ttl


def test_impossible_size_or_null_id_is_refused(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))
    names = "(instance, kind, id, vault, keys, bytes)"

    for value in ("9223372036854775807", "1125899906842625", "-1"):
        with pytest.raises(IntegrityError, match="bytes_are_0_to_1_pib"):
            rig.sql(f"INSERT INTO {{}}mark {names} VALUES ('shop', 'dropped', 'n', 'disk', '[\"a\"]', {value})")
    for call in ("undrop('shop', 'dropped', ARRAY['m', NULL])", "commit('shop', NULL)"):
        with pytest.raises(DBAPIError, match="SX006"):
            rig.sql(f"SELECT {{}}{call}")
    assert rig.count("mark") == 1
