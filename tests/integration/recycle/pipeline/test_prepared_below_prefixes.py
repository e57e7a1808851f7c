"""No file of an announced load is deleted whose commit then succeeds, whatever mark covers the load's prefix."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine

from sexton import contract
from sexton.contract import Collected, NewMark
from sexton.kernel.crash_points import installed
from sexton.marks.kept import OWNER_BUSY, by_load
from sexton.marks.model import Reason
from tests.support.kept import kept_texts
from tests.support.rig import GRACE, RETENTION, Rig, listing, put
from tests.support.stories import stories_of

DUE = RETENTION["dropped"] + 1
TTL = 60
EXPIRED = RETENTION["prepared"] + TTL + 1
FILE, OLD = "data/t1/r9/0.dat", "data/t1/old.dat"


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """The directory of the vault ``disk``; it holds a file of the table ``t1``."""
    root = rig.local(tmp_path / "disk")
    put(root, OLD)
    return root


def drop(rig: Rig, id_: str = "t1", prefix: str = "data/t1/", vault: str | None = "disk") -> None:
    rig.mark("dropped", NewMark(id=id_, vault=vault, prefix=prefix))


def prepare(
    rig: Rig,
    id_: str = "r9",
    prefix: str = "data/t1/r9/",
    *,
    vault: str = "disk",
    ttl: int = TTL,
    c: Connection | None = None,
) -> None:
    with nullcontext(c) if c is not None else rig.db.write() as connection:
        contract.prepare(connection, "shop", f"load-{id_}", [id_], vault, [prefix], ttl)


def test_r53_due_prefix_waits_for_a_load_below_it(rig: Rig, root: Path) -> None:
    prepare(rig)
    drop(rig)
    drop(rig, "t2", "data/t2/")
    prepare(rig, "r8", "data/t2/r8/")
    rig.later(DUE)
    put(root, FILE)
    put(root, "data/t2/r8/0.dat")
    [story] = stories_of(rig, "t1")

    report = rig.round()
    rig.commit("r8", "r9")

    texts = [event.text for event in story.events]
    assert "kept: load load-r9 may still write its files (prepared mark r9)" in texts
    assert "load load-r9 expires" in texts
    assert report.kept == {by_load("r8"): 1, by_load("r9"): 1}
    assert listing(root).keys() == {OLD, FILE, "data/t2/r8/0.dat"}


def test_prefix_and_expired_load_below_it_are_deleted(rig: Rig, root: Path) -> None:
    drop(rig)
    prepare(rig)
    put(root, FILE)
    rig.later(EXPIRED)

    for _ in range(3):
        rig.round()
        rig.later(GRACE + 1)

    assert (listing(root), rig.count("mark"), rig.count("mark_history")) == ({}, 0, 2)


def test_load_elsewhere_blocks_no_prefix(rig: Rig, root: Path) -> None:
    drop(rig)
    prepare(rig, "longer-name", "data/t10/r9/")
    prepare(rig, "neighbour", "data/t1-x/")
    prepare(rig, "other-vault", "data/t1/r9/", vault="other")

    assert rig.round(after=DUE).deleted == 1


def test_committed_load_below_a_dropped_prefix_is_retained(rig: Rig, root: Path) -> None:
    drop(rig)
    prepare(rig)
    put(root, FILE)
    rig.commit("r9")

    rig.round(after=DUE)

    row = rig.row("dropped", "t1")
    assert listing(root).keys() == {OLD, FILE}
    assert (row.quarantined_reason, row.last_error) == (Reason.CHANGED, "r9 was committed below its prefix data/t1/")
    assert rig.undrop_marks("dropped", "t1") == 1


def test_load_committed_during_a_listing_is_retained(rig: Rig, root: Path) -> None:
    drop(rig)
    prepare(rig)
    put(root, FILE)
    rig.later(DUE)

    with installed(lambda name: rig.commit("r9") if name == "resolve.stored" and rig.row("prepared", "r9") else None):
        report = rig.round()

    assert (report.deleted, listing(root).keys()) == (0, {OLD, FILE})


class TestClaimed:
    """The prefix is claimed, and its first pass is over."""

    @pytest.fixture(autouse=True)
    def _claimed(self, rig: Rig, root: Path) -> None:
        drop(rig)
        rig.round(after=DUE)
        assert listing(root) == {}

    def test_r54_no_load_is_announced_below_it(self, rig: Rig) -> None:
        refusal = r"SX001 collected: .* data/t1/ \(dropped t1\); write to another prefix"
        for prefix in ("data/t1/r9/", "data/t1/", "data/t1/a/b_c/"):
            with pytest.raises(Collected, match=refusal):
                prepare(rig, prefix=prefix)

        rig.sql("UPDATE {}mark SET quarantined_reason = 'DELETE_FAILED'")
        with pytest.raises(Collected):
            prepare(rig)
        drop(rig, "everywhere", "data/all/", vault=None)
        rig.sql("UPDATE {}mark SET state = 'CLAIMED', batch = 7 WHERE id = 'everywhere'")
        with pytest.raises(Collected):
            prepare(rig, prefix="data/all/r9/", vault="anywhere")
        assert rig.row("prepared", "r9") is None

    def test_a_load_is_announced_beside_it(self, rig: Rig) -> None:
        for id_, prefix, vault in (
            ("longer-name", "data/t10/", "disk"),
            ("wider", "data/", "disk"),
            ("other-vault", "data/t1/r9/", "other"),
        ):
            prepare(rig, id_, prefix, vault=vault)

            assert rig.row("prepared", id_).state == "MARKED"

    def test_a_load_is_announced_when_it_is_gone(self, rig: Rig, root: Path) -> None:
        rig.round(after=GRACE + 1)

        prepare(rig)
        put(root, FILE)
        rig.round()
        rig.commit("r9")

        assert listing(root).keys() == {FILE}


class TestOpenTransactions:
    """The owner's call and the claim meet."""

    @pytest.fixture
    def owner(self, rig: Rig) -> Iterator[Connection]:
        engine = create_engine(rig.url)
        with engine.connect() as connection:
            yield connection
        engine.dispose()

    def test_a_claim_leaves_a_prefix_below_which_a_load_is_announced(
        self, rig: Rig, root: Path, owner: Connection
    ) -> None:
        drop(rig)
        rig.later(DUE)
        prepare(rig, c=owner)

        busy = rig.round()
        owner.commit()
        put(root, FILE)
        waits = rig.round()

        assert (busy.kept, waits.kept) == ({OWNER_BUSY: 1}, {by_load("r9"): 1})
        rig.commit("r9")

    @pytest.mark.parametrize("call", ["prepare", "commit"])
    def test_a_load_waits_for_a_claim_and_is_refused(self, rig: Rig, root: Path, owner: Connection, call: str) -> None:
        drop(rig)
        rig.later(DUE)
        is_claimed, failures = threading.Event(), []

        def load() -> None:
            is_claimed.set()
            try:
                prepare(rig, c=owner) if call == "prepare" else contract.commit(owner, "shop", ["r9"])
            except Collected as e:
                failures.append(str(e))
            owner.rollback()

        def meet(name: str) -> None:
            if name == "claim.checked" and not is_claimed.is_set():
                if call == "commit":  # it was announced when the claim had read what is announced
                    announce_unseen(rig)
                pool.submit(load)
                is_claimed.wait()

        with ThreadPoolExecutor(1) as pool, installed(meet):
            rig.round()

        [failure] = failures
        assert "data/t1/" in failure

    def test_r53_an_unseen_load_keeps_files_in_the_second_pass(self, rig: Rig, root: Path, owner: Connection) -> None:
        prepare(rig, c=owner, ttl=EXPIRED)  # it stays open: neither sees the other
        drop(rig)
        rig.round(after=DUE)
        owner.commit()
        put(root, FILE)

        second = rig.round(after=GRACE + 1)
        with pytest.raises(Collected, match="r9 lies below data/t1/, claimed in batch"):
            rig.commit("r9")

        assert kept_texts(second) == {"load of r9": 1}
        assert listing(root).keys() == {FILE}

    def test_an_unseen_load_is_refused_after_the_deletion(self, rig: Rig, root: Path, owner: Connection) -> None:
        prepare(rig, c=owner, ttl=EXPIRED)
        drop(rig)
        for seconds in (DUE, GRACE + 1):
            rig.round(after=seconds)
        owner.commit()

        with pytest.raises(Collected, match="r9 lies below data/t1/, deleted in batch"):
            rig.commit("r9")


def announce_unseen(rig: Rig) -> None:
    """Insert a prepared mark as if ``prepare`` had not seen the prefix above it."""
    rig.sql(
        "INSERT INTO {}mark (instance, kind, id, vault, prefix, expires_at) VALUES"
        " ('shop', 'prepared', 'r9', 'disk', 'data/t1/r9/', date_trunc('milliseconds', now()) + interval '9 days')"
    )


class TestRepeatedLoads:
    """A load failed, and is repeated under the same prefix."""

    PREFIX = "data/t1/r9/"

    def start(self, rig: Rig, root: Path) -> None:
        prepare(rig, "first", self.PREFIX)
        put(root, FILE)
        rig.later(EXPIRED)
        prepare(rig, "again", self.PREFIX)
        put(root, "data/t1/r9/1.dat")

    def test_the_failed_one_waits_for_the_running_one(self, rig: Rig, root: Path) -> None:
        self.start(rig, root)

        report = rig.round()
        rig.commit("again")
        rig.round()

        assert report.kept == {by_load("again"): 1}
        assert listing(root).keys() == {OLD, FILE, "data/t1/r9/1.dat"}
        assert rig.row("prepared", "first").quarantined_reason == Reason.CHANGED

    def test_both_are_deleted_when_both_have_expired(self, rig: Rig, root: Path) -> None:
        self.start(rig, root)
        rig.later(EXPIRED)
        for _ in range(4):
            rig.round()
            rig.later(GRACE + 1)

        assert (listing(root).keys(), rig.count("mark")) == ({OLD}, 0)

    def test_the_failed_one_commits_no_deleted_files(self, rig: Rig, root: Path) -> None:
        self.start(rig, root)
        rig.later(EXPIRED)
        rig.sql("UPDATE {}mark SET quarantined_reason = 'NO_VAULT' WHERE id = 'first'")
        for _ in range(2):
            rig.round()
            with pytest.raises(Collected, match="first lies below data/t1/r9/"):
                rig.commit("first")
            rig.later(GRACE + 1)


def test_nested_announcements_of_one_load_commit_in_any_order(rig: Rig, root: Path) -> None:
    ids: Sequence[str] = ("load", "task1", "task2")
    for id_, prefix in zip(ids, ("data/l/", "data/l/1/", "data/l/2/"), strict=True):
        prepare(rig, id_, prefix)

    for id_ in ("task1", "load", "task2"):
        rig.commit(id_)

    assert rig.count("mark") == 0
