"""Texts of a live view that no object and no report can have are cut, and make no check fail."""

import pytest
from sqlalchemy import text

from sexton.check.model import RunState
from sexton.marks.live import MOST_KEY, MOST_SHOWN, short_key
from sexton.marks.model import DueMark
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_view
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.check.conftest import live_view as shown_view
from tests.servers.s3 import RunningS3
from tests.support.rig import DAY
from tests.support.transactions import owner_write

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
        owned.later(DAY + 60)
        checked = owned.check()
    owned.db.close()

    assert checked.run.state is RunState.WHOLE
    assert checked.confirmed == {"LOST": 1}
    assert {len(key.encode()) <= 1_024 for key in owned.open_findings()["LOST"]} == {True}


def test_long_texts_of_a_live_row_are_cut_where_shown(owned: Owned) -> None:
    show(owned, key="data/a", id_=LONG)
    mark = DueMark("dropped", "m", 0, "disk", None, ("data/a",), 0)

    [shown] = owned.owner.live("shop", [mark], lambda: None).values()
    with owned.db.read() as c:
        name = owned.registry.instance("shop").live_view
        [row] = live_view.rows_of(c, name, ["data/a"], ["shop"], 100)

    assert len(shown) < 2_000
    assert len(row[2]) == MOST_SHOWN


def test_a_check_reads_the_beginning_of_long_texts(owned: Owned) -> None:
    owned.write_live(*file_keys(3))
    show(owned, key=LONG, id_=LONG)

    with owned.live_side.snapshot("shop") as moment:
        entries = [e for part in moment.parts for page in owned.live_side.read("shop", moment.name, part) for e in page]

    assert max(len(entry.key) for entry in entries) == MOST_KEY
    assert max(len(entry.record) for entry in entries) < 2 * MOST_SHOWN
    assert owned.check().run.state is RunState.WHOLE


def test_a_vault_with_a_long_name_makes_the_view_unreadable(owned: Owned) -> None:
    show(owned, vault=LONG)

    with pytest.raises(OwnerSilent, match="whose name is too long"):
        owned.owner.live("shop", [DueMark("dropped", "m", 0, "disk", None, ("k",), 0)], lambda: None)


def test_short_keys_stay_and_long_ones_stay_different() -> None:
    assert short_key("k" * 1_024) == "k" * 1_024
    assert short_key("é" * 513) != short_key("é" * 514)
    assert len(short_key("é" * 100_000).encode()) <= 1_024
