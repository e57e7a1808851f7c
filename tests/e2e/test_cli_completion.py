"""The shell completes names from the database, quickly, and none where the database cannot be read."""

import pytest

from sexton.interfaces.cli import tree
from tests.e2e.conftest import Run
from tests.support.rig import Rig
from tests.support.topics import map_regions

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as long as a busy machine needs."""
    monkeypatch.setattr(tree, "PATIENCE_SECONDS", 60)


def test_names_are_completed_from_the_database(offline: Run, shop: Rig) -> None:
    shop.registry.add_instance("show-room")
    for topic in ("orders", "orders-2", "other"):
        map_regions(shop.db, topic, ())
    offline("hold", "add", "shop", "--for", "1h", "--reason", "audit")
    offline("plan", "shop")
    for typed, names in [
        ("sexton enable ", {"shop", "show-room"}),
        ("sexton enable show", {"show-room"}),
        ("sexton wal list sho", {"shop", "show-room"}),
        ("sexton vault trust shop ", {"disk"}),
        ("sexton wal explain orders", {"orders", "orders-2"}),
        ("sexton hold release ", {"1"}),
        ("sexton apply ", {"1"}),
        ("sexton sta", {"status", "start"}),
        ("sexton round show ", set()),
    ]:
        completed = offline(_SEXTON_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(typed.count(" ")))

        assert (set(completed.stdout.split()), completed.stderr) == (names, "")


def test_no_database_completes_nothing_and_prints_no_error(offline: Run) -> None:
    completed = offline(
        _SEXTON_COMPLETE="complete_bash",
        COMP_WORDS="sexton enable ",
        COMP_CWORD="2",
        SEXTON_DATABASE_URL=NOWHERE,
    )

    assert (completed.stdout.strip(), completed.stderr) == ("", "")
