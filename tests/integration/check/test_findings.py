"""A finding changes only by the newest run, and one that was repaired is found again when it is back."""

import pytest

from sexton.check.model import Discrepancy, FindingType
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.check.test_store import seen
from tests.support.rig import DAY


def test_a_late_report_of_an_older_run_changes_nothing(owned: Owned) -> None:
    orphan = Discrepancy(type=FindingType.ORPHAN, vault="disk", key="data/t9/a_0.dat", size=10)
    old = owned.runs.begin("shop", "terminated")
    first = owned.runs.begin("shop", "one")
    owned.runs.store_findings(first, [orphan])
    owned.runs.conclude(first, seen(first))
    owned.later(DAY + 60)
    new = owned.runs.begin("shop", "two")
    owned.runs.store_findings(new, [orphan])
    owned.runs.store_findings(old, [orphan])
    owned.runs.conclude(new, seen(new))

    assert owned.open_findings(confirmed=True) == {"ORPHAN": {orphan.key}}
    assert owned.runs.conclude(old, seen(old)).missing_inputs == ("it was cut off, another began",)


@pytest.mark.parametrize("between", [True, False])
def test_a_repaired_file_that_is_lost_again_is_found_again(owned: Owned, between: bool) -> None:
    key = file_keys(20)[3]
    owned.write_live(*file_keys(20))
    (owned.root / key).unlink()
    owned.check()
    owned.write_old(key)
    owned.sql("UPDATE {}finding SET state = 'REPAIRED'")
    if between:
        assert owned.check().found == {}
    (owned.root / key).unlink()

    assert owned.check().confirmed == {"LOST": 1}
