"""Generate and play random histories; events that interrupt a round are the most frequent."""

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from sexton.marks import file_list
from sexton.owners.sql import live_keys, owner
from sexton.recycle.pipeline import active_lease, adopt, ranges, settle
from sexton.recycle.pipeline import resolve as resolving
from sexton.recycle.pipeline.sql import due_marks, files
from sexton.recycle.planning import policy
from sexton.storage.local import vault
from tests.fault import operations as op
from tests.fault.conclusion import conclude
from tests.fault.local_round import Process
from tests.fault.shop import INSTANCE, Shop
from tests.fault.world import INSIDE, World
from tests.servers.postgres import driver_url, new_database, shared
from tests.support.crashes import OF_ROUNDS

MEMORY = Path("/dev/shm")
"""Where fsync costs nothing; these tests do not simulate a power cut."""
OF_OWNER = ("commit.deleted", "undrop.deleted", "hold.guarded", "hold.written")
OF_ROUND = sorted(OF_ROUNDS.difference(OF_OWNER))
OPEN = sorted(OF_ROUNDS - INSIDE)


FATES = (
    "commits",
    "commits",
    "takes long",
    "takes long",
    "dies before writing",
    "dies before committing",
    "dies in its commit",
)


@dataclass(frozen=True)
class History:
    """The setup of a world, and its operations in order."""

    operations: tuple[Any, ...]
    view: str = ""
    """How the owner shows what is live; empty: not at all."""
    small: bool = True
    strict: bool = False
    barrier: bool = False
    """Whether the owner fences a prepared mark before it is claimed."""


small = st.integers(0, 5)
how = st.sampled_from(("prefix", "keys"))
visits = st.sampled_from((1, 1, 1, 2, 2, 3, 5))
loads = st.builds(
    op.Load,
    files=st.integers(1, 3),
    table=st.one_of(st.none(), small),
    vault=st.sampled_from(("disk", "disk", "disk", "spare")),
    flat=st.booleans(),
    fate=st.sampled_from(FATES),
    nested=st.booleans(),
)
nested = st.builds(op.Load, table=small, nested=st.just(True), fate=st.sampled_from(FATES))
drops = st.builds(op.Drop, n=small, how=how, part=st.booleans(), obstacle=st.sampled_from((False, False, True)))
tables = st.builds(op.DropTable, n=small, how=st.sampled_from(("prefix", "keys", "nothing")))
holds = st.builds(
    op.Hold,
    what=st.sampled_from(("mark", "mark", "table", "everything", "place", "file", "vault")),
    n=small,
    seconds=st.sampled_from((30, 4_000, 20_000, 500_000)),
)
controls = st.sampled_from(
    [("stop", INSTANCE), ("stop", "*"), ("blacklist", INSTANCE), ("whitelist", "other"), ("vault_whitelist", "disk")]
).map(lambda control: op.Control(*control))
unmounts = st.builds(op.Unmount, vault=st.sampled_from(("disk", "disk", "spare")))
views = st.sampled_from((op.Refresh(), op.Refresh(), op.LoseView()))
meanwhile = st.one_of(
    st.just(op.Steal()),
    st.just(op.Elsewhere()),
    st.just(op.Beside()),
    st.builds(op.Undrop, n=small, again=st.booleans()),
    st.builds(op.Commit, n=small),
    st.builds(op.Upload, n=small),
    holds,
    st.builds(op.Release, n=small),
    controls,
    drops,
    unmounts,
    st.builds(op.Quarantine, n=small, discard=st.booleans()),
    views,
)
deaths = st.tuples(st.sampled_from(OF_ROUND), visits)
rounds = st.builds(
    op.Round,
    dies=st.one_of(st.just(()), st.tuples(deaths), st.tuples(deaths), st.tuples(deaths, deaths)),
    then=st.sampled_from(("retried", "adopted")),
    meanwhile=st.lists(st.tuples(st.tuples(st.sampled_from(OPEN), visits), meanwhile), max_size=2).map(tuple),
)
dying = st.one_of(
    st.builds(op.Undrop, n=small, dies=st.just(("undrop.deleted", 1))),
    st.builds(op.Hold, n=small, dies=st.sampled_from((("hold.guarded", 1), ("hold.written", 1)))),
    st.builds(op.Compact, n=small, dies=st.just(True)),
)
moves = st.builds(op.Later, seconds=st.sampled_from((61, 601, 1_801, 3_601, 10_801, 270_000)))
due = st.builds(op.Later, seconds=st.sampled_from((10_801, 10_801, 270_000)))
garbage = st.one_of(drops, drops, tables, st.builds(op.Compact, n=small), loads)
others = st.one_of(
    loads,
    drops,
    tables,
    st.builds(op.Compact, n=small),
    st.builds(op.Undrop, n=small, again=st.booleans()),
    st.builds(op.Commit, n=small),
    st.builds(op.Upload, n=small),
    st.builds(op.Mistake, n=small, how=how),
    holds,
    st.builds(op.Release, n=small),
    controls,
    unmounts,
    st.just(op.AddVault()),
    st.builds(op.Quarantine, n=small, discard=st.booleans()),
    st.builds(op.Rounds, number=st.sampled_from((2, 9))),
    dying,
    views,
)


episodes = st.one_of(
    st.tuples(garbage, garbage, due, rounds),
    st.tuples(loads, garbage, others, due, rounds, rounds),
    st.tuples(garbage, others, due, others, rounds),
    st.tuples(drops, holds, due, rounds),
    st.tuples(others, moves, rounds),
    st.tuples(garbage, others, due, views, moves, rounds),
    st.tuples(st.builds(op.Mistake, n=small, how=how), views, st.just(op.Later(270_000)), views, rounds),
    st.tuples(st.just(op.Upload()), st.just(op.Later(3_601)), rounds),
    st.tuples(nested, tables, nested, due, others, rounds, nested, st.just(op.Later(3_601)), others, rounds),
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Generate a few tables and loads, then episodes of garbage, time, rounds and other operations."""
    first = (op.Load(table=None, files=1), op.Load(), op.Load(files=3), *draw(st.lists(loads, max_size=3)))
    rest = [operation for episode in draw(st.lists(episodes, min_size=2, max_size=4)) for operation in episode]
    enabled_at = draw(st.sampled_from((0, 0, 0, len(first) + 4)))
    operations = [*first, *rest]
    operations.insert(enabled_at, op.Enable())
    flags = {name: draw(st.booleans()) for name in ("small", "strict", "barrier")}
    return History(tuple(operations), view=draw(st.sampled_from(("", "view", "copy", "spelled"))), **flags)


def play(history: History) -> World:
    """Play a history and its conclusion; raise ``Violation`` as soon as a promise is broken."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder, _sizes(history):
        url = shared().create_database(_template())
        w = World(Path(folder), url, view=history.view, barrier=history.barrier)
        try:
            for operation in history.operations:
                w.apply(operation)
            conclude(w)
        finally:
            w.close()
            shared().drop_database(url)
    return w


@functools.cache
def _template() -> str:
    """Return a database with the schema, the instances and the owner's tables, which each history copies."""
    url = shared().keep(new_database())
    Process(url).instance(enable=False).instance("other", enable=False).db.close()
    shop = Shop(driver_url(url), Path())
    shop.make_tables()
    shop.close()
    return url


SMALL = {
    policy: {"SHARD_OBJECTS": 3},
    ranges: {"CHUNK_MARKS": 2, "RANGE_OBJECTS": 4, "GROUP_FILES": 3},
    adopt: {"SECOND_PASS_MARKS": 2},
    settle: {"CHUNK_MARKS": 2},
    due_marks: {"CHUNK_MARKS": 2},
    resolving: {"CHUNK_MARKS": 2, "CHUNK_FILES": 3, "STORE_FILES": 2},
    files: {"AUDITED_AT_ONCE": 2},
    file_list: {"PAGE_KEYS": 2, "LIST_FILES": 3},
    vault: {"PAGE_KEYS": 2},
}
"""Pages, chunks and ranges of a few keys, so that a few files need many of each."""


@contextmanager
def _sizes(history: History) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, sizes in SMALL.items() if history.small else ():
            for name, size in sizes.items():
                patch.setattr(module, name, size)
        if history.strict:  # a lease is renewed before each page, not only when its proof is 5 s old
            patch.setattr(active_lease, "RENEW_SECONDS", 0.0)
        patch.setattr(owner, "RECHECK_SECONDS", 0)  # rows may change in the same second
        patch.setattr(live_keys, "TRUSTED_TIMES", 0)
        yield
