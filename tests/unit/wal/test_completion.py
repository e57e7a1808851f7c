"""The log's start decides which purges are complete and how many entries each freed."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.wal.model import Facts, Mode, Topic
from sexton.wal.verdict_rows import OpenPurge, completed_purges

TOPIC = Topic(name="wal-0", kafka_id="k1", enabled=True, floor=50)


def purge(id_: int, floor: int, log_start: int = 0, kafka_id: str = "k1") -> OpenPurge:
    return OpenPurge(id_, kafka_id, floor, log_start)


def completed(*purges: OpenPurge, start: int = 49, mode: Mode = Mode.DELETE) -> dict[int, int]:
    """Return each complete purge with the entries that it freed."""
    topic = TOPIC.model_copy(update={"mode": mode})
    return dict(completed_purges(topic, Facts(id="k1", start=start, end=90), purges))


def test_a_purge_is_complete_when_the_log_begins_at_its_floor() -> None:
    assert completed(purge(1, 50), start=48) == {}
    assert completed(purge(1, 50, log_start=9)) == {1: 40}
    # entries that are deleted together count for the highest floor
    assert completed(*(purge(n, floor, log_start=5) for n, floor in ((1, 20), (2, 50), (3, 80)))) == {1: 0, 2: 44}
    # a purge of an earlier topic of the name never completes
    assert completed(purge(1, 20, kafka_id="k0"), purge(2, 50, log_start=30)) == {2: 19}
    # a start that moved back frees nothing
    assert completed(purge(1, 50, log_start=60)) == {1: 0}


def test_logical_purge_is_complete_once_its_floor_is_persisted() -> None:
    assert completed(purge(1, 50), purge(2, 60), start=0, mode=Mode.LOGICAL) == {1: 0}


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True), st.lists(st.integers(0, 40), max_size=5))
def test_each_entry_is_counted_once(floors: list[int], starts: list[int]) -> None:
    purges, counted, seen = [purge(n, floor) for n, floor in enumerate(sorted(floors))], 0, 0

    for start in sorted(starts):
        completions = completed(*purges, start=start)
        counted += sum(completions.values())
        left = [p for p in purges if p.id not in completions]
        purges = [p._replace(log_start=start) for p in left] if completions else left
        seen = start if completions else seen

    assert counted == seen
