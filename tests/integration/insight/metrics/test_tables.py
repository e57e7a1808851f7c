"""The exported sizes of Sexton's tables grow with their rows, and cost no other figure where they are unknown."""

import logging
import secrets
from dataclasses import fields

import pytest
from sqlalchemy import text

from sexton.contract import NewMark
from sexton.database.engine import Database
from sexton.database.tables import Tables
from tests.support.rig import Rig
from tests.support.scrape import collector, scrape

ROWS = 5_000
SMALLEST_ROW = 100
"""A mark of one key takes more bytes than this, without its indexes."""


def test_a_table_grows_with_its_rows(rig: Rig) -> None:
    before = scrape(rig)
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=(f"data/{n}/a.dat",)) for n in range(ROWS)))

    after = scrape(rig)
    sizes = [s("sexton_table_bytes", table="mark") for s in (before, after)]
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert sizes[1] - sizes[0] > ROWS * SMALLEST_ROW
    assert after("sexton_table_bytes", table="pace") == before("sexton_table_bytes", table="pace")


def test_indexes_and_toast_are_counted(postgres_rig: Rig) -> None:
    before = scrape(postgres_rig)("sexton_table_bytes", table="file_list")
    postgres_rig.sql(
        "INSERT INTO {}file_list (batch, last, first, instance, first_key, last_key, files, results) "
        "VALUES (1, 1, 1, 'shop', 'a', 'b', convert_to(repeat('x', 1000000), 'UTF8'), '')"
    )

    after = scrape(postgres_rig)("sexton_table_bytes", table="file_list")
    assert (after or 0) - (before or 0) > 1_000_000  # outside of the row


def test_every_table_has_one_sample(rig: Rig) -> None:
    tables = {table.name for table in fields(Tables)}

    assert scrape(rig).values("table") == tables


def test_sizes_need_no_right_to_the_table(postgres_rig: Rig) -> None:
    role = f"svc_{secrets.token_hex(4)}"
    with postgres_rig.db.write() as c:
        c.execute(
            text(
                f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA sexton TO {role};"
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sexton TO {role};"
                f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sexton TO {role};"
                f"REVOKE ALL ON sexton.call FROM {role}"
            )
        )
    restricted = Database.open(postgres_rig.url.replace("postgres@", f"{role}@"))

    found = scrape(collector(postgres_rig, db=restricted))
    restricted.close()
    assert found("sexton_up") == 1
    assert found("sexton_scrape_errors_total") == 0
    assert found("sexton_table_bytes", table="call") == scrape(postgres_rig)("sexton_table_bytes", table="call")


def test_an_exclusive_lock_costs_only_the_sizes(postgres_rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    ours = collector(postgres_rig)
    with postgres_rig.db.write() as c, caplog.at_level(logging.WARNING):
        c.execute(text("LOCK TABLE sexton.call IN ACCESS EXCLUSIVE MODE"))  # as VACUUM FULL does
        during = scrape(ours)

    after = scrape(ours)
    assert (during("sexton_up"), during("sexton_scrape_errors_total")) == (1, 1)
    assert during("sexton_instance_enabled", instance_id="shop") == 1
    assert during.values("table") == set()
    assert "the sizes of Sexton's tables are unknown for this scrape: " in caplog.text
    assert after("sexton_table_bytes", table="call") is not None
