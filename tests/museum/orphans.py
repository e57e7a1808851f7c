"""What an operator does about orphans."""

from tests.integration.check.conftest import Owned
from tests.support.rig import DAY


def find_and_delete_orphans(owned: Owned) -> set[str]:
    """Check twice, a day apart, have an operator confirm what was found, and run rounds; return the orphans."""
    owned.check()
    owned.later(DAY + 60)
    owned.check()
    orphans = owned.open_findings(confirmed=True)["ORPHAN"]
    owned.repairs.orphans("shop")
    owned.later(10 * DAY)
    owned.check()
    owned.round()
    return orphans
