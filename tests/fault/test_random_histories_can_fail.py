"""The random histories detect a missing safety piece."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from sexton.marks.model import ClaimRequest, ClaimResult
from sexton.marks.sql.prepared import PreparedKeeper
from sexton.operators.holds.keeper import HoldKeeper
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_keys, live_moment, loose_keys
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.pipeline.decide import DeletionProgress
from sexton.recycle.pipeline.resolve import Resolver
from sexton.recycle.pipeline.sql import batches, claim, files, outcomes, owner_marks, quarantine, settlement
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.planning import policy
from sexton.storage.vaults import ProvenVaults
from tests.fault import operations as op
from tests.fault.histories import History, histories, play
from tests.fault.shop import Shop
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
LISTED_PREFIX = (op.Enable(), op.Load(fate="dies before committing"), op.Later(270_000), op.Round(), op.Upload())
Patch = Callable[[pytest.MonkeyPatch], None]


def holds_block_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HoldKeeper, "blocking", lambda *_: {})


def no_retention(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy, "cutoff", lambda kind, policy, now: now)


def claim_skips_the_due_check(patch: pytest.MonkeyPatch) -> None:
    real = ClaimStore.claim

    def claim_any(self: ClaimStore, request: ClaimRequest) -> ClaimResult:
        candidates = [candidate._replace(retention_starts_at=None) for candidate in request.candidates]
        return real(self, request._replace(cutoff=2**60, candidates=candidates))

    patch.setattr(ClaimStore, "claim", claim_any)


def old_write_token_is_accepted(patch: pytest.MonkeyPatch) -> None:
    for module in (batches, claim, owner_marks, settlement, files, outcomes, quarantine):
        patch.setattr(module, "verify", lambda *_, **__: None)


def taken_over_batch_keeps_unchecked_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "sort_leftovers", lambda _rows, _claimed, second_pass: files.Leftovers([], [], 0))


def no_second_pass(patch: pytest.MonkeyPatch) -> None:
    real = DeletionProgress.of
    patch.setattr(DeletionProgress, "of", lambda mark, sums: replace(real(mark, sums), prefix=None))


def second_pass_checks_no_keeper(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Resolver, "drop_blocked", lambda *_: None)


def vaults_are_trusted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProvenVaults, "_prove", lambda *_: None)
    patch.setattr(ProvenVaults, "name_claim", lambda *_: None)  # it reads the marker


def nothing_is_adopted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BatchStore, "unfinished", lambda *_: ())


def nothing_is_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settlement, "add_to_round", lambda *_: None)


def loads_block_no_prefix(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PreparedKeeper, "blocking", lambda *_: {})


def nothing_is_above_a_load(patch: pytest.MonkeyPatch) -> None:
    real = World.owner

    def owner(w: World) -> Shop:
        shop = real(w)
        shop.execute(NOT_COVERED)
        return shop

    patch.setattr(World, "owner", owner)


def no_load_is_refused(patch: pytest.MonkeyPatch) -> None:
    nothing_is_above_a_load(patch)


DETECTING: dict[Patch, tuple[Any, ...]] = {
    holds_block_nothing: (*BEGIN, op.Drop(), op.Hold(n=1), op.Later(DUE), op.Round()),
    no_retention: (*BEGIN, op.Drop(), op.Round()),
    claim_skips_the_due_check: (
        *BEGIN,
        op.Drop(),
        op.Later(DUE),
        op.Round(meanwhile=((("resolve.stored", 1), op.Undrop(again=True)),)),
    ),
    old_write_token_is_accepted: (
        *BEGIN,
        op.Drop(),
        op.Later(DUE),
        op.Round(meanwhile=((("resolve.stored", 1), op.Later(61)),)),
    ),
    taken_over_batch_keeps_unchecked_files: (
        *LISTED_PREFIX,
        op.Later(3_601),
        op.Round(dies=(("resolve.stored", 1),), then="adopted"),
        op.Hold("place"),
        op.Round(),
    ),
    no_second_pass: (
        op.Enable(),
        op.Load(fate="dies before committing"),
        op.Later(270_000),
        op.Round(meanwhile=((("claim.committed", 1), op.Upload()),)),
    ),
    second_pass_checks_no_keeper: (*LISTED_PREFIX, op.Hold("place"), op.Later(3_601), op.Round()),
    vaults_are_trusted: (
        *BEGIN,
        op.Drop(how="keys"),
        op.Later(DUE),
        op.Round(meanwhile=((("claim.committed", 1), op.Unmount()),)),
    ),
    nothing_is_adopted: (*BEGIN, op.Drop(), op.Later(DUE), op.Round(dies=(("claim.committed", 1),), then="adopted")),
    nothing_is_counted: (*BEGIN, op.Drop(), op.Later(DUE), op.Round()),
    loads_block_no_prefix: (*BEGIN, NESTED, op.DropTable(), op.Later(DUE), op.Round()),
    no_load_is_refused: (*BEGIN, op.DropTable(), op.Later(DUE), op.Round(), op.Load(nested=True)),
    nothing_is_above_a_load: (*BEGIN, NESTED, op.DropTable(), op.Commit(), op.Later(DUE), op.Round()),
}


def copies_are_always_current(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live_moment, "require_recent", lambda *_: None)
    patch.setattr(live_moment, "precedes", lambda *_: False)


def spelling_is_exact(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loose_keys, "read", lambda *_: loose_keys.NONE)


def urls_are_no_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live_keys, "names_in_view", lambda _vaults, _vault, name: [name])


def lost_view_shows_nothing(patch: pytest.MonkeyPatch) -> None:
    real = SqlOwner.live

    def live(*arguments: Any) -> Any:
        try:
            return real(*arguments)
        except OwnerSilent:
            return {}

    patch.setattr(SqlOwner, "live", live)


LOADS = (op.Enable(), *(op.Load(files=1, table=None) for _ in range(6)))
DETECTING_VIEWS: dict[Patch, tuple[str, tuple[Any, ...]]] = {
    copies_are_always_current: ("copy", (op.Refresh(), *LOADS, op.Mistake(), op.Later(270_000), op.Round())),
    spelling_is_exact: ("spelled", (*LOADS, op.Mistake(n=4, how="keys"), op.Later(270_000), op.Round())),
    urls_are_no_keys: ("spelled", (*LOADS, op.Mistake(n=1, how="keys"), op.Later(270_000), op.Round())),
    lost_view_shows_nothing: ("view", (*LOADS, op.Mistake(), op.Later(270_000), op.LoseView(), op.Round())),
}


@pytest.mark.parametrize("remove_safety", DETECTING_VIEWS, ids=lambda s: s.__name__)
def test_known_history_detects_an_overlooked_live_object(remove_safety: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    view, operations = DETECTING_VIEWS[remove_safety]
    history = History(operations, view=view)
    play(history)
    remove_safety(monkeypatch)

    with pytest.raises(Violation, match="that the owner references"):
        play(history)


@pytest.mark.parametrize("remove_safety", DETECTING, ids=lambda s: s.__name__)
def test_known_history_detects_a_missing_safety_piece(remove_safety: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(DETECTING[remove_safety])
    unbroken = play(history)
    remove_safety(monkeypatch)

    with pytest.raises(Violation):
        play(history)

    assert unbroken.witness.gone


def test_random_histories_detect_a_missing_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    no_retention(monkeypatch)

    @settings(
        max_examples=100,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(histories())
    def every_promise_holds(history: History) -> None:
        play(history)

    with pytest.raises(Violation, match="before it was due"):
        every_promise_holds()
