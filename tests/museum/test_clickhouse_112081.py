"""ClickHouse #112081 (and duckdb-iceberg #1120): the answer to a commit was lost, and its files were cleaned up.

The commit had landed, so the table had lost its newest data. In Sexton a writer deletes nothing: the commit itself ends
the prepared mark of its files, so after a lost answer the database alone says which of both happened.
"""

import pytest

from sexton import contract
from tests.integration.check.conftest import Owned, owned
from tests.support.rig import DAY, GRACE
from tests.support.transactions import owner_write

__all__ = ["owned"]


@pytest.mark.parametrize("landed", [True, False])
def test_clickhouse_112081_a_lost_answer_deletes_no_commit(owned: Owned, landed: bool) -> None:
    with owner_write(owned.db) as c:
        contract.prepare(c, "shop", "load-1", ["r1"], "disk", ["data/r1/"], 600)
    path = owned.write_old("data/r1/a.dat")
    if landed:
        with owner_write(owned.db) as c:
            contract.commit(c, "shop", ["r1"])
    # Whatever the writer believes now, it does nothing more.
    owned.later(10 * DAY)
    for _ in range(2):
        owned.round()
        owned.later(GRACE + 1)

    assert path.exists() == landed
