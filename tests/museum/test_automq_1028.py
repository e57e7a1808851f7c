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


def test_r16_r38_doris_47475_refused_keys_are_deleted_later(cold: Faulty) -> None:
    keys_by_mark = {f"m{n:03}": [f"data/{n % 3}/{n:03}-{k}.dat" for k in range(3)] for n in range(60)}
    cold.put(*NEEDED, *(key for mark_keys in keys_by_mark.values() for key in mark_keys), size=7)
    cold.rig.mark(
        "dropped", *(NewMark(id=i, vault="cold", keys=tuple(keys), bytes=21) for i, keys in keys_by_mark.items())
    )
    cold.rig.later(10_801)
    before = cold.listing()
    refused = ("m000", "m007", "m032", "m033", "m034", "m059")
    failing = {keys_by_mark[i][n % 3]: code for n, (i, code) in enumerate(zip(refused, CODES * 2, strict=True))}
    cold.proxy.fail_keys(failing)
    cold.proxy.fail_keys({keys_by_mark["m040"][0]: "InternalError"}, times=1)  # it only asks for patience: no failure

    broken = [cold.rig.round() for _ in range(3)]
    left, states, row = set(cold.listing()), marks(cold.rig), cold.rig.row("dropped", "m000")
    cold.proxy.fail_keys(failing, times=0)
    healed = cold.rig.round()

    assert left == {*NEEDED, *failing}
    assert states == dict.fromkeys(refused, "CLAIMED")
    assert (row.failures, row.last_error.split(":")[0]) == (3, "AccessDenied")
    assert [(r.removed, r.failed, r.waiting, r.faults) for r in broken] == [(54, 6, 6, 0), (0, 6, 6, 0), (0, 6, 6, 0)]
    assert [r.deleted for r in (*broken, healed)] == [180 - 6, 0, 0, 6]  # each in the round that deleted it
    assert set(cold.listing()) == set(NEEDED)
    assert (healed.removed, deleted_ids(cold.rig)) == (6, set(keys_by_mark))
    check_sums(cold.rig, [*broken, healed], before, cold.listing())


def test_automq_1028_errors_in_either_pass_leak_nothing(cold: Faulty) -> None:
    early, late = ["data/p/a.dat", "data/p/b.dat"], "data/p/late.dat"
    cold.put(*NEEDED, *early, size=7)
    cold.rig.mark("dropped", NewMark(id="p", vault="cold", prefix="data/p/"))
    cold.rig.later(10_801)
    cold.proxy.fail_keys({early[1]: "AccessDenied"}, times=1)
    reports, left = [cold.rig.round()], [set(cold.listing())]
    reports.append(cold.rig.round())
    cold.put(late, size=7)  # a PUT that was under way when the prefix was listed
    cold.rig.later(3_601)
    cold.proxy.fail_keys({late: "AccessDenied"}, times=1)
    reports.append(cold.rig.round())
    left.append(set(cold.listing()))
    reports += run_clean_rounds(cold.rig)

    assert [r.failed for r in reports[:3]] == [1, 0, 1]
    assert left == [{*NEEDED, early[1]}, {*NEEDED, late}]
    assert (set(cold.listing()), marks(cold.rig)) == (set(NEEDED), {})
    check_sums(cold.rig, reports, dict.fromkeys([*NEEDED, *early, late], 7), cold.listing())
