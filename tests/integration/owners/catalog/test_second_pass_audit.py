"""The audit records every object that a second pass over a prefix deletes, also after a fault or a crash."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sexton.kernel.crash_points import installed
from sexton.recycle.audit.model import AuditRow
from sexton.storage.port import VaultFault
from tests.integration.owners.catalog.shop import GRACE, RETAINED, Shop
from tests.support.crashes import Crash, crash_at
from tests.support.kept import kept_texts
from tests.support.places import AuditList


class AwayOnce(AuditList):
    """An audit whose place is away for a while."""

    away = False

    def write(self, rows: Sequence[AuditRow]) -> None:
        if self.away:
            raise VaultFault(rows[0].vault, "UNREACHABLE", "away")
        super().write(rows)


@pytest.mark.slow
def test_deletes_during_an_audit_fault_are_audited_later(database_url: str, tmp_path: Path) -> None:
    audit = AwayOnce()
    shop = Shop(database_url, audit=audit).register()
    shop.local(tmp_path / "disk")
    [tablet] = shop.table()
    shop.loaded([tablet])
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    late = f"data/{tablet}/late_0.dat"
    shop.put("disk", late)
    shop.later(GRACE + 1)
    audit.away = True
    held = kept_texts(shop.round())
    audit.away = False
    shop.round()
    gone = shop.count("mark_history", kind="tablet")
    shop.close()

    assert held == {"vault disk: UNREACHABLE": 1, "waits for its children": 1}
    assert gone == 1
    assert late in {row.key for row in audit.rows}


@pytest.mark.slow
@pytest.mark.parametrize("point", ["outcomes.recorded", "audit.written"])
def test_deletes_of_a_crashed_second_pass_are_audited(shop: Shop, point: str) -> None:
    tablets = shop.table()
    shop.loaded(tablets)
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    late = f"data/{tablets[0]}/late_0.dat"
    shop.put("disk", late)
    shop.later(GRACE + 1)
    with installed(crash_at(point)), pytest.raises(Crash):
        shop.round()
    shop.later(120)

    shop.round()

    assert shop.objects() == set()
    assert late in {row.key for row in shop.audit_list.rows}
