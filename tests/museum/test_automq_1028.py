"""AutoMQ #1028, Doris #47475: errors inside a 200 of a delete were ignored, and objects leaked.

Sexton removes a record only when the store confirmed each of its keys, so that refused keys are deleted later.
"""

import pytest

from sexton.contract import NewMark
from tests.fault.conftest import Faulty
from tests.museum.tables import check_sums, deleted_ids, marks, run_clean_rounds

pytestmark = pytest.mark.slow

NEEDED = [f"data/{n}/live.dat" for n in range(3)]
CODES = ("AccessDenied", "MethodNotAllowed", "NobodyHeardOfThis")


def garbage(cold: Faulty, count: int, keys: int = 3) -> dict[str, list[str]]:
    """Write objects of some bytes, mark them dropped by key, a few to a mark, and let them fall due."""
    keys_by_mark = {f"m{n:03}": [f"data/{n % 3}/{n:03}-{k}.dat" for k in range(keys)] for n in range(count)}
    cold.put(*NEEDED, *(key for mark_keys in keys_by_mark.values() for key in mark_keys), size=7)
    cold.rig.mark(
        "dropped",
        *(NewMark(id=i, vault="cold", keys=tuple(mark_keys), bytes=7 * keys) for i, mark_keys in keys_by_mark.items()),
    )
    cold.rig.later(10_801)
    return keys_by_mark


def test_automq_1028_next_round_deletes_keys_with_errors_in_200(cold: Faulty) -> None:
    keys_by_mark = garbage(cold, 60)
    before = cold.listing()
    failing = {
        keys_by_mark[f"m{n:03}"][n % 3]: code for n, code in zip((0, 7, 32, 33, 34, 59), CODES * 2, strict=False)
    }
    cold.proxy.fail_keys(failing)
    cold.proxy.fail_keys(
        {keys_by_mark["m040"][0]: "InternalError"}, times=1
    )  # what only asks for patience is no failure

    broken = cold.rig.round()
    left, states = set(cold.listing()), marks(cold.rig)
    cold.proxy.fail_keys(failing, times=0)
    healed = cold.rig.round()

    assert (broken.faults, left) == (0, {*NEEDED, *failing}), broken
    assert set(states) == {i for i, mark_keys in keys_by_mark.items() if not failing.keys().isdisjoint(mark_keys)}
    assert set(states.values()) == {"CLAIMED"}
    assert (broken.claimed, broken.removed, broken.waiting) == (60, 54, 6)
    assert (broken.deleted, healed.deleted) == (180 - 6, 6)  # each in the round that deleted it
    assert set(cold.listing()) == set(NEEDED)
    assert (healed.removed, deleted_ids(cold.rig)) == (6, set(keys_by_mark))
    check_sums(cold.rig, [broken, healed], before, cold.listing())


def test_automq_1028_200_with_only_errors_removes_no_record(cold: Faulty) -> None:
    keys_by_mark = garbage(cold, 20)
    before = cold.listing()
    cold.proxy.fail_keys({key: "AccessDenied" for mark_keys in keys_by_mark.values() for key in mark_keys}, times=1)

    broken = cold.rig.round()
    left = cold.listing()
    healed = cold.rig.round()

    assert left == before
    assert (broken.deleted, broken.removed, broken.bytes_freed, broken.bytes_estimated) == (0, 0, 0, 0)
    assert broken.failed == 60
    check_sums(cold.rig, [broken, healed], before, cold.listing())
    assert set(cold.listing()) == set(NEEDED)


@pytest.mark.parametrize("look", ["the first", "the last"])
def test_automq_1028_errors_in_either_pass_leak_nothing(cold: Faulty, look: str) -> None:
    garbage(cold, 0)
    early, late = ["data/p/a.dat", "data/p/b.dat"], "data/p/late.dat"
    cold.put(*early, size=7)
    cold.rig.mark("dropped", NewMark(id="p", vault="cold", prefix="data/p/"))
    cold.rig.later(10_801)
    reports = []
    if look == "the last":
        reports.append(cold.rig.round())
        cold.put(late, size=7)  # a PUT that was under way when the prefix was listed
        cold.rig.later(3_601)
    failing = late if look == "the last" else early[1]
    cold.proxy.fail_keys({failing: "AccessDenied"}, times=1)

    broken = cold.rig.round()
    left = set(cold.listing())
    reports += [broken, *run_clean_rounds(cold.rig)]

    assert broken.failed == 1
    assert left == {*NEEDED, failing}
    assert (set(cold.listing()), marks(cold.rig)) == (set(NEEDED), {})
    written = dict.fromkeys([*NEEDED, *early, *([late] if look == "the last" else [])], 7)
    check_sums(cold.rig, reports, written, cold.listing())


def test_doris_47475_refused_key_is_deleted_when_refusals_end(cold: Faulty) -> None:
    keys_by_mark = garbage(cold, 5)
    before = cold.listing()
    stubborn = keys_by_mark["m002"][1]
    reports = []
    for _ in range(3):
        cold.proxy.fail_keys({stubborn: "AccessDenied"})
        reports.append(cold.rig.round())
    row = cold.rig.row("dropped", "m002")
    cold.proxy.fail_keys({stubborn: "AccessDenied"}, times=0)
    reports.append(cold.rig.round())

    assert [r.removed for r in reports] == [4, 0, 0, 1]
    assert (row.state, row.failures) == ("CLAIMED", 3)
    assert set(cold.listing()) == set(NEEDED)
    check_sums(cold.rig, reports, before, cold.listing())
