"""The command `sexton trial advance` moves the clock of a trial deployment forwards."""

from sexton.database.engine import Database
from tests.e2e.conftest import Run


def now(db: Database) -> int:
    with db.read() as c:
        return db.now(c)


def test_trial_advances_the_clock_by_four_days(offline: Run, shop: Database) -> None:
    before = now(shop)

    advanced = offline("trial", "advance", "4d")

    assert advanced.returncode == 0
    assert "sexton plan" in advanced.stdout
    assert now(shop) - before >= 4 * 86_400_000


def test_wrong_duration_is_refused_and_the_clock_stays(offline: Run, shop: Database) -> None:
    before = now(shop)

    refused = offline("trial", "advance", "-4d"), offline("trial", "advance", "4 days")

    assert all(answer.returncode == 64 for answer in refused)
    assert now(shop) - before < 3_600_000
