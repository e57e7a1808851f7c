"""Records, reports and acknowledgements that cannot be stored are refused."""

import json
from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from sexton.kernel.errors import BadInput, SextonError
from sexton.replication.agent.model import CutDone
from sexton.replication.binlog.model import StoredRecord
from sexton.replication.errors import OutOfOrder
from sexton.replication.replicas.model import TabletReport
from tests.integration.replication.binlog_instance import DB, BinlogInstance


def test_text_that_no_database_stores_is_refused(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    nul, its = "a\x00b", (binlogs.instance, "b1")
    for refused in (
        lambda: binlogs.service.records.add(binlogs.instance, DB, [StoredRecord(commit_seq=1, type="ALTER", data=nul)]),
        lambda: binlogs.service.configs.logs(binlogs.instance, (nul, "")),
        lambda: binlogs.service.journal.read(binlogs.instance, 0, nul),
        lambda: binlogs.report("b1", TabletReport(uid=nul, version=1)),
        lambda: binlogs.service.consumers.acknowledge(binlogs.instance, nul, DB, "", 0),
    ):
        with pytest.raises((SextonError, ValidationError)):
            refused()
    for done in (
        CutDone(uid=nul, version=1),
        CutDone(uid="u", version=10**30),
        CutDone(uid="u", version=1, outcome=nul),
    ):
        assert binlogs.service.sender.acknowledge(*its, [done]).ignored == 1


def test_records_that_name_very_many_tables_are_refused(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(None)
    tables = ({"type": "ALTER", "tables": tuple(f"t{n}-{i}" for i in range(1_000))} for n in range(51))
    tables_of_data = ({"data": data({f"t{n}-{i}": 0 for i in range(1_000)})} for n in range(51))
    partitions = ({"data": data({"t": 1_000})} for _ in range(51))
    for kind in (tables, tables_of_data, partitions):
        records = [StoredRecord(commit_seq=n, **content) for n, content in enumerate(kind, 1)]
        with pytest.raises(BadInput, match="send at most 50,000 at once"):
            binlogs.service.records.add(binlogs.instance, DB, records)

    one_large = StoredRecord(commit_seq=1, data=data({"t": 50_001}))
    assert binlogs.service.records.add(binlogs.instance, DB, [one_large]).stored == 1
    assert binlogs.service.records.add(binlogs.instance, DB, records[1:3]).stored == 2
    with pytest.raises(OutOfOrder, match="with another type or data"):
        binlogs.commit(1, orders={"p1": 9})


def data(tables: Mapping[str, int]) -> str:
    """Return the data of a record that created so many partitions of each table."""
    created = {
        table: {"partitionRecords": [{"partitionId": n, "version": 1} for n in range(number)]}
        for table, number in tables.items()
    }
    return json.dumps({"tableRecords": created}, separators=(",", ":"))
