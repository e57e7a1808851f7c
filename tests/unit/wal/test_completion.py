"""The log's start decides which purges are complete and how many entries each freed."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.wal.model import Facts, Mode, Topic
from sexton.wal.verdict_rows import OpenPurge, completed_purges

TOPIC = Topic(name="wal-0", kafka_id="k1", enabled=True, floor=50)


def purge(id_: int, floor: int, log_start: int = 0, kafka_id: str = "k1") -> OpenPurge:
    return OpenPurge(id_, kafka_id, floor, log_start)


def test_a_purge_is_complete_when_the_log_begins_at_its_floor() -> None:
    assert completed_purges(TOPIC, Facts(id="k1", start=48, end=90), [purge(1, 50)]) == {}
    assert completed_purges(TOPIC, Facts(id="k1", start=49, end=90), [purge(1, 50, log_start=9)]) == {1: 40}


def test_entries_deleted_together_count_for_the_highest_floor() -> None:
    purges = [purge(1, 20, log_start=5), purge(2, 50, log_start=5), purge(3, 80, log_start=5)]

    completions = completed_purges(TOPIC, Facts(id="k1", start=49, end=90), purges)

    assert completions == {1: 0, 2: 44}


def test_purge_of_an_earlier_topic_of_the_name_never_completes() -> None:
    purges = [purge(1, 20, log_start=0, kafka_id="k0"), purge(2, 50, log_start=30)]

    completions = completed_purges(TOPIC, Facts(id="k1", start=49, end=90), purges)

    assert completions == {2: 19}


def test_logical_purge_is_complete_once_its_floor_is_persisted() -> None:
    logical = TOPIC.model_copy(update={"mode": Mode.LOGICAL})

    completions = completed_purges(logical, Facts(id="k1", start=0, end=90), [purge(1, 50), purge(2, 60)])

    assert completions == {1: 0}


def test_a_start_that_moved_back_frees_nothing() -> None:
    completions = completed_purges(TOPIC, Facts(id="k1", start=49, end=90), [purge(1, 50, log_start=60)])

    assert completions == {1: 0}


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True), st.lists(st.integers(0, 40), max_size=5))
def test_each_entry_is_counted_once(floors: list[int], starts: list[int]) -> None:
    purges, counted, seen = [purge(n, floor) for n, floor in enumerate(sorted(floors))], 0, 0

    for start in sorted(starts):
        completions = completed_purges(TOPIC, Facts(id="k1", start=start, end=90), purges)
        counted += sum(completions.values())
        left = [p for p in purges if p.id not in completions]
        purges = [p._replace(log_start=start) for p in left] if completions else left
        seen = start if completions else seen

    assert counted == seen
