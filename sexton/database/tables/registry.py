"""The registry of all tables: every query names a table through ``TABLES``."""

from dataclasses import dataclass, fields

from sqlalchemy import Table

from sexton.database.tables import (  # noqa: F401  importing a file defines its tables in METADATA
    check,
    deployment,
    marks,
    operators,
    protection,
    recycle,
    replication,
    wal,
)
from sexton.database.tables.columns import METADATA


@dataclass(frozen=True)
class Tables:
    """Every table; the file of each capability documents what a row is."""

    # deployment.py
    clock: Table
    instance_guard: Table
    worker_presence: Table
    # operators.py
    instance: Table
    instance_role: Table
    vault: Table
    control: Table
    setting: Table
    hold: Table
    token: Table
    call: Table
    # marks.py
    mark: Table
    mark_history: Table
    file_list: Table
    lease: Table
    # recycle.py
    plan: Table
    round: Table
    batch: Table
    claim: Table
    tally: Table
    counter: Table
    pace: Table
    pace_share: Table
    pace_cap: Table
    # protection.py
    protection: Table
    protection_item: Table
    protection_chunk: Table
    # check.py
    check_run: Table
    finding: Table
    # wal.py
    wal_topic: Table
    wal_region: Table
    wal_pin: Table
    wal_purge: Table
    wal_node: Table
    wal_log: Table
    wal_entry: Table
    # replication.py
    journal_head: Table
    journal: Table
    journal_follower: Table
    binlog_round: Table
    binlog_log: Table
    binlog: Table
    binlog_table_record: Table
    binlog_partition_version: Table
    binlog_partition_cut: Table
    binlog_consumer: Table
    backend: Table
    replica: Table

    def all(self) -> list[Table]:
        """Return the tables in the order of their names in this class."""
        return list(vars(self).values())


TABLES = Tables(**{field.name: METADATA.tables[f"sexton.{field.name}"] for field in fields(Tables)})
