"""A very large cut waits for an operator's approval, and cuts only the approved records."""

import pytest

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import BinlogSettings
from tests.integration.replication.binlog_instance import DB, INTERVAL, SHOP, BinlogInstance

DAY = 86_400


@pytest.fixture
def waits(db: Database) -> BinlogInstance:
    """A log of which records 1 to 5 wait for approval, and the next expires within the interval."""
    binlogs = BinlogInstance(db, BinlogSettings(free_records=3))
    binlogs.configure_log(DAY)
    for seq in range(1, 6):
        binlogs.commit(seq, binlogs.now - 2 * DAY * 1000)
    binlogs.commit(6, binlogs.now - DAY * 1000 + 60_000)
    binlogs.commit(7)
    binlogs.cut_expired()
    assert binlogs.log().awaiting_seq == 5
    return binlogs


@pytest.mark.slow
def test_later_expiry_needs_no_second_approval(waits: BinlogInstance) -> None:
    waits.service.configs.approve(SHOP, DB, upto=5)
    waits.later(INTERVAL)
    waits.cut_expired()

    assert (waits.log().watermark, waits.log().awaiting_seq, waits.readable_seqs()) == (5, None, [6, 7])

    waits.later(INTERVAL)
    waits.cut_expired()
    assert (waits.log().watermark, waits.readable_seqs()) == (6, [7])


def test_a_consumer_blocks_an_approved_cut(waits: BinlogInstance) -> None:
    waits.service.consumers.register(SHOP, "lisbon", DB, after=3)
    waits.service.configs.approve(SHOP, DB, upto=5)
    waits.later(INTERVAL)
    waits.cut_expired()
    held = waits.log()
    waits.service.consumers.acknowledge(SHOP, "lisbon", DB, "", 7)
    waits.later(INTERVAL)
    waits.cut_expired()

    assert (held.watermark, held.held, held.awaiting_seq) == (3, {"lisbon": 3}, None)
    assert waits.log().watermark >= 5


def test_only_the_shown_cut_is_approved(waits: BinlogInstance) -> None:
    waits.later(INTERVAL)
    waits.cut_expired()

    approved = waits.service.configs.approve(SHOP, DB, upto=5)

    assert (approved.approved, approved.awaiting_seq) == (5, None)
    with pytest.raises(BadInput, match="waits for approval"):
        waits.service.configs.approve(SHOP, DB, upto=5)
