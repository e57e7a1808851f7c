"""Overwrite a Delta table twice and vacuum it; print what vacuum says and which files the table reads.

It runs in the environment ``.venv/peers``. ``python delta.py FOLDER``
"""

import json
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake


def main(folder: str) -> None:
    """Write and vacuum the table in a folder; the name of one partition is escaped."""
    for n in range(2):
        rows = pa.table({"part": ["plain", "has a blank"], "n": [n, n]})
        write_deltalake(folder, rows, partition_by=["part"], mode="overwrite")
    table = DeltaTable(folder)
    deleted = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    print(json.dumps({"deleted": deleted, "live": table.file_uris()}))


if __name__ == "__main__":
    main(sys.argv[1])
