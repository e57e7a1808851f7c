"""Doris #22174: "forever" was the largest number; multiplied by 1,000 it overflowed, and everything expired.

In Sexton "forever" is a value of its own, a TTL above a maximum is refused, and a cut of a whole log needs an
approval.
"""

import pytest

from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import BinlogSettings, LogRetention, StoredRecord
from sexton.replication.binlog.policy import FOREVER, LONGEST_TTL, parse_ttl
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.support.rig import Rig

LARGEST = (2**31 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**63 // 1_000, LONGEST_TTL + 1)
"""What somebody takes for "for ever"."""


def test_doris_22174_largest_ttl_is_refused_naming_forever() -> None:
    for value in LARGEST:
        with pytest.raises(BadInput, match="'forever'"):
            parse_ttl(value)

    assert parse_ttl(FOREVER) is None
    assert parse_ttl(LONGEST_TTL) == LONGEST_TTL


def test_doris_22174_log_with_long_or_no_ttl_does_not_expire(rig: Rig) -> None:
    world = BinlogInstance(rig.db)
    for name, ttl_seconds in (("ever", None), ("long", LONGEST_TTL)):
        world.service.configs.put(SHOP, name, "", LogRetention(ttl_seconds=ttl_seconds))
        for seq, at in enumerate((1, world.now - 86_400_000, world.now, world.now + 1, 2**53), 1):
            world.service.records.add(SHOP, name, [StoredRecord(commit_seq=seq, timestamp=at, type="ALTER")])

    report = world.cut_expired()

    assert world.readable_seqs(db="ever") == [1, 2, 3, 4, 5]
    assert world.readable_seqs(db="long") == [2, 3, 4, 5]  # the first is of 1970
    assert report.records == 1


def test_doris_22174_cut_of_a_whole_log_waits_for_approval(rig: Rig) -> None:
    world = BinlogInstance(rig.db, BinlogSettings(free_records=10))
    world.configure_log(LONGEST_TTL)
    records = [StoredRecord(commit_seq=n, timestamp=world.now - 86_400_000, type="ALTER") for n in range(1, 21)]
    world.service.records.add(SHOP, DB, records)
    world.configure_log(3_600)  # by mistake

    report = world.cut_expired()

    assert (report.cut, report.waiting, len(world.readable_seqs())) == (0, 1, 20)
