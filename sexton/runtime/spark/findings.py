"""Write findings to the database on the executors that find them, so that none passes through the driver."""

from collections.abc import Iterator

import pyarrow as pa

from sexton.check.model import CheckOrder, Discrepancy
from sexton.check.policy import is_stored, unknown_object
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.storage.model import ListedObject

PAGE_FINDINGS = 1_000
"""Findings written by one transaction."""


class FindingWriter:
    """Writes findings to the database, on an executor, and returns the number of each type. It may be repeated.

    Each task stores as many as one process would.
    """

    def __init__(self, where: ConnectionTarget, order: CheckOrder, pattern: str) -> None:
        self._where, self._order, self._pattern = where.model_dump_json(), order.model_dump_json(), pattern

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = CheckOrder.model_validate_json(self._order)
        counts: dict[str, int] = {}
        stores = None
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, PAGE_FINDINGS):
                    page: list[Discrepancy] = []
                    for row in batch.slice(start, PAGE_FINDINGS).to_pylist():
                        if row["type"] is None:
                            etag, written = row["etag"] or "", row["written"] or ""
                            listed = ListedObject(row["key"], row["size"], etag, written)
                            finding = unknown_object(self._pattern, row["vault"], listed)
                        else:
                            finding = Discrepancy(**{name: value for name, value in row.items() if value is not None})
                        counts[finding.type] = counts.get(finding.type, 0) + 1
                        if is_stored(finding.type, counts[finding.type]):
                            page.append(finding)
                    if page and stores is None:
                        stores = ConnectionTarget.model_validate_json(self._where).stores()
                    if page and stores is not None:
                        stores.checks.store_findings(order.run, page)
        finally:
            if stores is not None:
                stores.db.close()
        rows = list(counts.items())
        yield pa.RecordBatch.from_arrays(
            [pa.array([t for t, _ in rows], pa.string()), pa.array([n for _, n in rows], pa.int64())],
            names=["type", "number"],
        )
