"""The random histories detect a missing safety piece."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings

from sexton.marks.model import ClaimRequest, ClaimResult
from sexton.marks.sql.prepared import PreparedKeeper
from sexton.operators.holds.keeper import HoldKeeper
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_keys, live_moment
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.pipeline.decide import DeletionProgress
from sexton.recycle.pipeline.resolve import Resolver
from sexton.recycle.pipeline.sql import batches, claim, files, owner_marks, quarantine, settlement
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.planning import policy
from sexton.storage.vaults import ProvenVaults
from tests.fault import operations as op
from tests.fault.histories import History, histories, play
from tests.fault.shop import Shop
from tests.fault.test_random_histories import ALL
from tests.fault.witness import Violation
from tests.fault.world import World

pytestmark = pytest.mark.slow

BEGIN = (op.Enable(), op.Load(files=1, table=None), op.Load())
DUE = 10_801
NESTED = op.Load(nested=True, fate="takes long")
NOT_COVERED = """
CREATE OR REPLACE FUNCTION sexton.is_covered(instance text, prefixes text[])
RETURNS boolean LANGUAGE sql AS 'SELECT false'
"""
NO_RETENTION = (policy, "cutoff", lambda kind, policy, now: now)
LOADS = (op.Enable(), *(op.Load(files=1, table=None) for _ in range(6)))
LISTED_PREFIX = (op.Enable(), op.Load(fate="dies before committing"), op.Later(270_000), op.Round(), op.Upload())
Patch = tuple[object, str, Any]
"""An object, the name of its attribute, and what replaces that."""


class Missing(NamedTuple):
    """A missing safety piece, and a history that detects it."""

    patches: Sequence[Patch]
    operations: tuple[Any, ...]
    view: str = ""


def _claim_any(claim: Callable[..., ClaimResult]) -> Callable[..., ClaimResult]:
    def claim_any(self: ClaimStore, request: ClaimRequest) -> ClaimResult:
        candidates = [candidate._replace(retention_starts_at=None) for candidate in request.candidates]
        return claim(self, request._replace(cutoff=2**60, candidates=candidates))

    return claim_any


def _without_prefix(progress: Callable[..., DeletionProgress]) -> Callable[..., DeletionProgress]:
    return lambda mark, sums: replace(progress(mark, sums), prefix=None)


def _nothing_above(owner: Callable[[World], Shop]) -> Callable[[World], Shop]:
    def own(w: World) -> Shop:
        shop = owner(w)
        shop.execute(NOT_COVERED)
        return shop

    return own


def _or_nothing(live: Callable[..., Any]) -> Callable[..., Any]:
    def live_or_nothing(*arguments: Any) -> Any:
        try:
            return live(*arguments)
        except OwnerSilent:
            return {}

    return live_or_nothing


def _nothing(*_: object, **__: object) -> None:
    """Do nothing, in the place of a check."""


VERIFYING = (batches, claim, owner_marks, settlement, files, files, quarantine)
NOTHING_ABOVE: Patch = (World, "owner", _nothing_above(World.owner))
DETECTING: dict[str, Missing] = {
    "holds block nothing": Missing(
        [(HoldKeeper, "blocking", lambda *_: {})], (*BEGIN, op.Drop(), op.Hold(n=1), op.Later(DUE), op.Round())
    ),
    "no retention": Missing([NO_RETENTION], (*BEGIN, op.Drop(), op.Round())),
    "a claim skips the due check": Missing(
        [(ClaimStore, "claim", _claim_any(ClaimStore.claim))],
        (*BEGIN, op.Drop(), op.Later(DUE), op.Round(meanwhile=((("resolve.stored", 1), op.Undrop(again=True)),))),
    ),
    "an old write token is accepted": Missing(
        [(module, "verify", _nothing) for module in VERIFYING],
        (*BEGIN, op.Drop(), op.Later(DUE), op.Round(meanwhile=((("resolve.stored", 1), op.Later(61)),))),
    ),
    "a batch that is taken over keeps unchecked files": Missing(
        [(files, "sort_leftovers", lambda _rows, _claimed, second_pass: files.Leftovers([], [], 0))],
        (
            *LISTED_PREFIX,
            op.Later(3_601),
            op.Round(dies=(("resolve.stored", 1),), then="adopted"),
            op.Hold("place"),
            op.Round(),
        ),
    ),
    "no second pass": Missing(
        [(DeletionProgress, "of", _without_prefix(DeletionProgress.of))],
        (
            op.Enable(),
            op.Load(fate="dies before committing"),
            op.Later(270_000),
            op.Round(meanwhile=((("claim.committed", 1), op.Upload()),)),
        ),
    ),
    "a second pass checks no keeper": Missing(
        [(Resolver, "keep_blocked", _nothing)], (*LISTED_PREFIX, op.Hold("place"), op.Later(3_601), op.Round())
    ),
    "vaults are trusted": Missing(
        [(ProvenVaults, "_prove", _nothing), (ProvenVaults, "name_claim", _nothing)],  # which reads the marker
        (*BEGIN, op.Drop(how="keys"), op.Later(DUE), op.Round(meanwhile=((("claim.committed", 1), op.Unmount()),))),
    ),
    "nothing is adopted": Missing(
        [(BatchStore, "unfinished", lambda *_: ())],
        (*BEGIN, op.Drop(), op.Later(DUE), op.Round(dies=(("claim.committed", 1),), then="adopted")),
    ),
    "nothing is counted": Missing(
        [(settlement, "add_to_round", _nothing)], (*BEGIN, op.Drop(), op.Later(DUE), op.Round())
    ),
    "loads block no prefix": Missing(
        [(PreparedKeeper, "blocking", lambda *_: {})], (*BEGIN, NESTED, op.DropTable(), op.Later(DUE), op.Round())
    ),
    "no load is refused": Missing(
        [NOTHING_ABOVE], (*BEGIN, op.DropTable(), op.Later(DUE), op.Round(), op.Load(nested=True))
    ),
    "nothing is above a load": Missing(
        [NOTHING_ABOVE], (*BEGIN, NESTED, op.DropTable(), op.Commit(), op.Later(DUE), op.Round())
    ),
    "copies are always current": Missing(
        [(live_moment, "require_recent", _nothing), (live_moment, "precedes", lambda *_: False)],
        (op.Refresh(), *LOADS, op.Mistake(), op.Later(270_000), op.Round()),
        "copy",
    ),
    "a spelling is exact": Missing(
        [(live_keys, "read", lambda *_: live_keys.NONE)],
        (*LOADS, op.Mistake(n=4, how="keys"), op.Later(270_000), op.Round()),
        "spelled",
    ),
    "URLs are no keys": Missing(
        [(live_keys, "names_in_view", lambda _vaults, _vault, name: [name])],
        (*LOADS, op.Mistake(n=1, how="keys"), op.Later(270_000), op.Round()),
        "spelled",
    ),
    "a lost view shows nothing": Missing(
        [(SqlOwner, "live", _or_nothing(SqlOwner.live))],
        (*LOADS, op.Mistake(), op.Later(270_000), op.LoseView(), op.Round()),
        "view",
    ),
}


@pytest.mark.parametrize("name", DETECTING)
def test_known_history_detects_a_missing_safety_piece(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patches, operations, view = DETECTING[name]
    history = History(operations, view=view)
    unbroken = play(history)
    for patch in patches:
        monkeypatch.setattr(*patch)

    with pytest.raises(Violation, match="that the owner references" if view else None):
        play(history)

    assert view or unbroken.witness.gone


def test_random_histories_detect_a_missing_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*NO_RETENTION)

    @settings(ALL, max_examples=100, derandomize=True, phases=(Phase.generate,))
    @given(histories())
    def every_promise_holds(history: History) -> None:
        play(history)

    with pytest.raises(Violation, match="before it was due"):
        every_promise_holds()
