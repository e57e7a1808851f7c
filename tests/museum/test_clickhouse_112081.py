"""ClickHouse #112081 (and duckdb-iceberg #1120): the answer to a commit was lost, and its files were cleaned up.

The commit had landed, so the table had lost its newest data. In Sexton a writer deletes nothing: the commit itself ends
the prepared mark of its files, so after a lost answer the database alone says which of both happened.
"""

from sexton import contract
from tests.integration.check.conftest import Owned
from tests.museum.tables import run_clean_rounds
from tests.support.rig import DAY
from tests.support.transactions import owner_write


def test_clickhouse_112081_a_lost_answer_deletes_no_commit(owned: Owned) -> None:
    with owner_write(owned.db) as c:
        contract.prepare(c, "shop", "load-1", ["landed", "lost"], "disk", ["data/landed/", "data/lost/"], 600)
    landed, lost = (owned.write_old(f"data/{name}/a.dat") for name in ("landed", "lost"))
    with owner_write(owned.db) as c:
        contract.commit(c, "shop", ["landed"])
    # Whatever the writer believes now, it does nothing more.
    owned.later(10 * DAY)
    run_clean_rounds(owned)

    assert (landed.exists(), lost.exists()) == (True, False)
