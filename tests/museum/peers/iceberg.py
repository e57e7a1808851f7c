"""Overwrite an Iceberg table and expire all but its last snapshot; print which files it reads, and its rows.

It runs in the environment ``.venv/peers``. ``python iceberg.py FOLDER`` writes; a second run only reads.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

ROWS = pa.table({"a": [1, 2]})
TABLE = "museum.t"


def main(folder: str) -> None:
    """Write the table in a folder, unless it is there."""
    catalog = SqlCatalog("museum", uri=f"sqlite:///{folder}/catalog.db", warehouse=Path(folder).as_uri())
    if not catalog.namespace_exists("museum"):
        write(catalog)
    table = catalog.load_table(TABLE)
    live = [file["file_path"] for file in table.inspect.files().to_pylist()]
    snapshots = len(table.metadata.snapshots)
    print(json.dumps({"live": live, "snapshots": snapshots, "rows": table.scan().to_arrow().to_pydict()}))


def write(catalog: SqlCatalog) -> None:
    """Overwrite a new table twice, and expire what is not the last snapshot."""
    catalog.create_namespace("museum")
    table = catalog.create_table(TABLE, schema=ROWS.schema)
    table.append(ROWS)
    for _ in range(2):
        table.overwrite(ROWS)
    last = table.metadata.current_snapshot_id
    expire = table.maintenance.expire_snapshots()
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id != last:
            expire = expire.by_id(snapshot.snapshot_id)
    expire.commit()


if __name__ == "__main__":
    main(sys.argv[1])
