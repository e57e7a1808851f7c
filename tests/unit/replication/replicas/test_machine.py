"""Updates move a replica's versions (V, LFV, LSV) as the seed article describes: C06 and C08 to C10."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.replication.replicas.model import NO_VERSION
from sexton.replication.replicas.policy import VersionState, updated


def test_c10_three_updates_of_the_seed_article() -> None:
    assert updated(VersionState(8, 9, 10), version=9) == (10, NO_VERSION, 10)
    assert updated(VersionState(8, 9, 8), version=9) == (9, NO_VERSION, 9)
    assert updated(VersionState(8, NO_VERSION, 8), failed=9) == (8, 9, 8)


UPDATES_BY_CASE: list[tuple[str, tuple[int, int, int], dict[str, int], tuple[int, int, int]]] = [
    ("1: failed at or above succeeded", (8, 12, 11), {"version": 9}, (9, 12, 9)),
    ("1: the same, and equal", (8, 12, 12), {"version": 9}, (9, 12, 9)),
    ("2: a higher one failed", (8, 9, 10), {"failed": 12}, (8, 12, 8)),
    ("2: a higher one failed, and more was written", (8, 9, 10), {"failed": 12, "succeeded": 14}, (8, 12, 8)),
    ("2: a lower one failed", (8, 12, 14), {"failed": 10}, (8, 12, 8)),
    ("2: none failed does not erase one that did", (8, 12, 14), {"failed": NO_VERSION}, (8, 12, 8)),
    ("3: more was written above what failed", (8, 9, 8), {"succeeded": 10}, (8, 9, 10)),
    ("3: more was written below what failed", (8, 12, 8), {"succeeded": 10}, (8, 12, 8)),
    ("3: less was written", (8, 9, 12), {"succeeded": 10}, (8, 9, 12)),
    ("3: it went on, short of what failed", (8, 12, 14), {"version": 9}, (9, 12, 14)),
    ("4: it passed what failed", (8, 9, 10), {"version": 12}, (12, NO_VERSION, 12)),
    ("4: it came to what failed, and had more", (8, 9, 8), {"version": 9, "succeeded": 11}, (11, NO_VERSION, 11)),
    ("4: nothing failed, and more was written", (8, NO_VERSION, 8), {"succeeded": 10}, (10, NO_VERSION, 10)),
    ("4: what failed is below V", (8, NO_VERSION, 8), {"failed": 5}, (8, NO_VERSION, 8)),
    ("5: what failed is V", (8, 8, 8), {}, (8, NO_VERSION, 8)),
    ("a new replica", (-1, NO_VERSION, -1), {"version": 2}, (2, NO_VERSION, 2)),
]


def test_five_cases_of_an_update() -> None:
    for case, before, update, after in UPDATES_BY_CASE:
        assert updated(VersionState(*before), **update) == after, case


def test_c06_gap_remains_after_an_update_with_the_same_version() -> None:
    missed = updated(VersionState(10, NO_VERSION, 10), failed=11)

    assert missed == (10, 11, 10)
    assert updated(missed, version=10) == missed
    assert updated(missed, version=11) == (11, NO_VERSION, 11)


def test_c06_placeholder_of_the_seed_ends_with_an_update() -> None:
    assert updated(VersionState(10, 1, 10), version=10) == (10, NO_VERSION, 10)


def test_c08_complete_clone_lacks_no_version() -> None:
    assert updated(VersionState(10, 13, 10), version=12, committed=12) == (12, NO_VERSION, 12)
    assert updated(VersionState(12, 13, 12), committed=12) == (12, NO_VERSION, 12)
    assert updated(VersionState(10, 13, 14), version=12, committed=12) == (12, NO_VERSION, 12)


def test_c08_incomplete_clone_still_lacks_the_version() -> None:
    for committed in (None, 11, 13):
        assert updated(VersionState(10, 13, 10), version=12, committed=committed) == (12, 13, 12)


def test_c09_a_version_below_the_known_one_changes_nothing() -> None:
    for failed, succeeded in ((NO_VERSION, 10), (12, 10), (12, 14), (1, 10)):
        before = VersionState(10, failed, succeeded)
        assert updated(before, version=9) == before
        assert updated(before, version=9, failed=20, succeeded=30, committed=9) == before


VERSIONS = st.integers(-1, 8)
UPDATES = st.fixed_dictionaries({}, optional=dict.fromkeys(("version", "failed", "succeeded", "committed"), VERSIONS))


@given(st.builds(VersionState, VERSIONS, VERSIONS, VERSIONS), UPDATES)
def test_update_preserves_the_order_of_the_versions(before: VersionState, update: dict[str, int]) -> None:
    after = updated(before, **update)

    assert updated(updated(before)) == updated(before)
    assert after.version >= before.version
    if update.get("version", before.version) < before.version:
        assert after == before
        return
    assert after.failed == NO_VERSION or after.failed > after.version
    assert after.succeeded == after.version or after.succeeded > after.failed > after.version


@given(st.lists(UPDATES, max_size=12))
def test_v_only_rises_to_reported_versions(updates: list[dict[str, int]]) -> None:
    state, reported = VersionState(0, NO_VERSION, 0), {0}
    for update in updates:
        before, reported = state, reported | {update.get("version", 0), update.get("succeeded", 0)}

        state = updated(state, **update)

        assert state.version >= before.version
        assert {state.version, state.succeeded} <= reported
        assert state.failed in {NO_VERSION, before.failed, update.get("failed")}
