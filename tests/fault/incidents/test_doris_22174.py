"""Doris #22174: "for ever" was the largest number there is; multiplied by 1,000 it overflowed, and everything expired.

Here "for ever" is a value of its own, a TTL has a ceiling above which it is a typing error, and a log that would lose
very much at once waits for a person.
"""

from collections.abc import Iterator

import pytest

from sexton.database import schema
from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import BinlogSettings, LogRetention, Record
from sexton.replication.binlog.policy import FOREVER, LONGEST_TTL, parse_ttl
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.support.rig import DEPLOYMENT

LARGEST = (2**31 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**63 // 1_000, LONGEST_TTL + 1)
"""What somebody takes for "for ever"."""


@pytest.fixture
def db(clean_url: str) -> Iterator[Database]:
    """A clean database."""
    schema.init(clean_url, DEPLOYMENT)
    database = Database.open(clean_url)
    yield database
    database.close()


def test_doris_22174_the_largest_number_is_refused_and_what_to_write_instead_is_said(db: Database) -> None:
    for given in LARGEST:
        with pytest.raises(BadInput, match="'forever'"):
            parse_ttl(given)

    assert parse_ttl(FOREVER) is None
    assert parse_ttl(LONGEST_TTL) == LONGEST_TTL


def test_doris_22174_nothing_of_a_log_that_is_kept_for_ever_or_for_long_expires(db: Database) -> None:
    world = BinlogInstance(db)
    for name, its in (("ever", None), ("long", LONGEST_TTL)):
        world.service.configs.put(SHOP, name, "", LogRetention(ttl_seconds=its))
        for seq, at in enumerate((1, world.now - 86_400_000, world.now, world.now + 1, 2**53), 1):
            world.service.records.add(SHOP, name, [Record(commit_seq=seq, timestamp=at, type="ALTER")])

    report = world.cut_expired()

    assert world.readable_seqs(db="ever") == [1, 2, 3, 4, 5]
    assert world.readable_seqs(db="long") == [2, 3, 4, 5]  # the first is of 1970
    assert report.records == 1


def test_doris_22174_a_log_that_would_lose_everything_at_once_waits_for_a_person(db: Database) -> None:
    world = BinlogInstance(db, BinlogSettings(free_records=10))
    world.configure_log(LONGEST_TTL)
    records = [Record(commit_seq=n, timestamp=world.now - 86_400_000, type="ALTER") for n in range(1, 21)]
    world.service.records.add(SHOP, DB, records)
    world.configure_log(3_600)  # by mistake

    report = world.cut_expired()

    assert (report.cut, report.waiting, len(world.readable_seqs())) == (0, 1, 20)
