"""Iceberg #17448 (and #16498): the location ``/ns/my_table`` also matched ``/ns/my_table_2``, whose files were orphans.

In Sexton a prefix ends with a separator, so it can mean no sibling; one without is refused where it is marked.
"""

import pytest

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from tests.integration.check.conftest import Owned
from tests.museum.tables import run_clean_rounds
from tests.support.rig import listing


def test_iceberg_17448_a_dropped_table_takes_no_sibling_along(owned: Owned) -> None:
    for name in ("my-table", "my-table-2", "my-table2"):
        owned.write_old(f"ns/{name}/a.dat")
    with pytest.raises(BadInput, match="prefix ends with a separator"):
        owned.mark("dropped", NewMark(id="t", vault="disk", prefix="ns/my-table"))
    owned.mark("dropped", NewMark(id="t", vault="disk", prefix="ns/my-table/"))
    owned.later(10_801)
    run_clean_rounds(owned)

    assert set(listing(owned.root)) == {"ns/my-table-2/a.dat", "ns/my-table2/a.dat"}
