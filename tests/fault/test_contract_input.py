"""Impossible values from an owner are refused or do no harm."""

from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError

from sexton.contract import NewMark
from sexton.storage.model import MARKER_KEY
from tests.servers.postgres import new_database
from tests.support.kept import kept_texts
from tests.support.rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig(new_database()).instance()


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


@pytest.mark.parametrize("ttl", TTLS)
def test_time_to_live_is_judged_by_its_instant(rig: Rig, ttl: str) -> None:
    call = f"SELECT {{}}prepare('shop', 't', ARRAY['m'], 'disk', ARRAY['p/'], interval '{ttl}')"

    if TTLS[ttl]:
        rig.sql(call)
    else:
        with pytest.raises(DBAPIError, match="SX006 txn_ttl"):
            rig.sql(call)

    assert rig.count("mark") == TTLS[ttl]


@pytest.mark.parametrize("value", ["9223372036854775807", "1125899906842625", "-1"])
def test_impossible_size_is_refused(rig: Rig, value: str) -> None:
    names = "(instance, kind, id, vault, keys, bytes)"

    with pytest.raises(IntegrityError, match="bytes_are_0_to_1_pib"):
        rig.sql(f"INSERT INTO {{}}mark {names} VALUES ('shop', 'dropped', 'm', 'disk', '[\"a\"]', {value})")


@pytest.mark.parametrize("call", ["undrop('shop', 'dropped', ARRAY['m', NULL])", "commit('shop', NULL)"])
def test_null_id_is_refused(rig: Rig, call: str) -> None:
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))

    with pytest.raises(DBAPIError, match="SX006"):
        rig.sql(f"SELECT {{}}{call}")

    assert rig.count("mark") == 1
