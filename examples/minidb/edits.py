"""Store the leader's commits, one line each in one file; the state of tables follows from these lines."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.minidb.manifests import write
from sexton.client import NewRecord

FILE = "edits.jsonl"
CREATE, UPSERT, DROP = "CREATE_TABLE", "UPSERT", "DROP_TABLE"
"""Types of records. Sexton reads the versions of an ``UPSERT``; the other types are for readers of the log."""


@dataclass
class Table:
    """One table: the tablets and the last version of each partition, and the backends of its copies."""

    tablets: dict[str, list[str]]
    backends: list[str]
    versions: dict[str, int] = field(default_factory=dict)
    dropped: bool = False

    def copies(self) -> list[tuple[str, str]]:
        """Return (tablet, backend) of every copy."""
        return [(tablet, b) for tablets in self.tablets.values() for tablet in tablets for b in self.backends]

    def next_versions(self) -> list[dict[str, Any]]:
        """Return the versions that an UPSERT creates, in the form of a record's data."""
        return [{"partitionId": part, "version": self.versions.get(part, 0) + 1} for part in self.tablets]


class Edits:
    """The edits of one database."""

    def __init__(self, directory: Path) -> None:
        self.tables, self.committed = dict[str, Table](), list[NewRecord]()
        self._file = directory / FILE
        text = self._file.read_text() if self._file.is_file() else ""
        complete = text[: text.rfind("\n") + 1]
        if complete != text:
            write(self._file, complete)  # a partial line: its commit was never acknowledged
        for line in complete.splitlines():
            self._apply(NewRecord.model_validate_json(line))

    @property
    def last(self) -> int:
        """The commit_seq of the last commit; 0: there is none."""
        return self.committed[-1].commit_seq if self.committed else 0

    def commit(self, kind: str, at: int, tables: Collection[str], data: Mapping[str, Any]) -> NewRecord:
        """Commit: durable when this returns. ``at`` in ms since 1970."""
        text = json.dumps({"commitSeq": self.last + 1, **data})
        record = NewRecord(commit_seq=self.last + 1, timestamp=at, tables=tuple(tables), type=kind, data=text)
        with self._file.open("a") as f:
            f.write(record.model_dump_json() + "\n")
            f.flush()
            os.fsync(f.fileno())
        self._apply(record)
        return record

    def _apply(self, record: NewRecord) -> None:
        data = json.loads(record.data)
        if record.type == CREATE:
            self.tables[record.tables[0]] = Table(data["tablets"], data["backends"])
        elif record.type == DROP:
            self.tables[record.tables[0]].dropped = True
        for name, changes in data.get("tableRecords", {}).items():
            self.tables[name].versions |= {p["partitionId"]: p["version"] for p in changes["partitionRecords"]}
        self.committed.append(record)
