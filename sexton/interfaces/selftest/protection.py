"""Prove on a live instance that protections block deletions.

Objects of due marks are protected, a round runs and leaves them, the protection is released, a second round deletes
them. The rounds delete only what was due, and would have been deleted anyway.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from pydantic import Field

from sexton.kernel.message import Message
from sexton.marks.keepers import KeptCounts
from sexton.protection.model import Item, Protection
from sexton.recycle.model import RoundReport
from sexton.storage.port import Vaults

OBJECTS_PER_PREFIX = 2
"""Objects sampled from one prefix; protecting one object of a mark keeps all of the mark."""


class SelfTest(Message):
    """The result of a selftest. Keys are ``VAULT/KEY``."""

    job: str
    objects: tuple[str, ...]
    rounds: tuple[int, ...] = ()
    lost: tuple[str, ...] = ()
    """Objects that were deleted although they were protected."""
    stayed: tuple[str, ...] = ()
    """Objects that still exist although they were released and due."""
    kept: KeptCounts = Field(default_factory=dict)
    """What blocked marks in the second round; this may explain ``stayed``."""

    @property
    def passed(self) -> bool:
        """Return whether no protected object was lost, and each released one was deleted."""
        return bool(self.objects) and not self.lost and not self.stayed


def sample(vaults: Vaults, instance: str, items: Iterator[Item], count: int) -> list[Item]:
    """Return at most ``count`` existing objects, from exact keys and from prefixes."""
    objects: list[Item] = []
    for item in items:
        vault = vaults.get(instance, item.vault)
        if item.prefix:
            keys = [o.key for page in islice(vault.list(item.key), 1) for o in page[:OBJECTS_PER_PREFIX]]
        else:
            keys = [o.key for o in vault.stat([item.key])]
        objects += [Item(item.vault, key) for key in keys]
        if len(objects) >= count:
            break
    return objects[:count]


def run(
    vaults: Vaults,
    protection: Protection,
    items: Sequence[Item],
    *,
    protect: Callable[[], object],
    run_round: Callable[[], RoundReport],
    release: Callable[[], object],
) -> SelfTest:
    """Protect the objects, run a round, release them, run another round; return the result.

    Args:
        vaults: vaults whose identity is proved.
        protection: names the instance and the job.
        items: the objects that ``sample`` returned.
        protect: registers the protection of the objects, for a limited time in case this process dies.
        run_round: runs one round and returns its report.
        release: ends the protection.
    """
    protect()
    released = False
    try:
        first = run_round()
        lost = _missing(vaults, protection.instance, items)
        release()
        released = True
        second = run_round()
    finally:
        if not released:
            release()
    missing = set(_missing(vaults, protection.instance, items))
    return SelfTest(
        job=protection.job,
        objects=_names(items),
        rounds=(first.round, second.round),
        lost=_names(lost),
        stayed=_names([i for i in items if i not in missing]),
        kept=second.kept,
    )


def _missing(vaults: Vaults, instance: str, items: Sequence[Item]) -> list[Item]:
    keys_by_vault: dict[str, list[str]] = {}
    for item in items:
        keys_by_vault.setdefault(item.vault, []).append(item.key)
    existing = {
        (vault, o.key) for vault, keys in keys_by_vault.items() for o in vaults.get(instance, vault).stat(sorted(keys))
    }
    return [i for i in items if (i.vault, i.key) not in existing]


def _names(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(f"{i.vault}/{i.key}" for i in items)
