"""Prove on an instance of one's own that protections keep: objects of due marks are protected, a round runs and leaves
them, the protection is released, a round runs and takes them. What goes was due and would have gone anyway.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from pydantic import Field

from sexton.kernel.message import Message
from sexton.marks.keepers import KeptCounts
from sexton.protection.model import Item, Protection
from sexton.protection.registrar import Registrar
from sexton.recycle.model import RoundReport
from sexton.storage.port import Vaults

PER_MARK = 2
"""Objects taken from one mark: one of them keeps all of it."""


class SelfTest(Message):
    """What was seen. Keys are ``VAULT/KEY``."""

    job: str
    objects: tuple[str, ...]
    rounds: tuple[int, ...] = ()
    lost: tuple[str, ...] = ()
    """Gone although protected."""
    stayed: tuple[str, ...] = ()
    """There although released and due."""
    kept: KeptCounts = Field(default_factory=dict)
    """Who kept marks in the second round, which may be why some stayed."""

    @property
    def passed(self) -> bool:
        """Tell whether protections do what they should."""
        return bool(self.objects) and not self.lost and not self.stayed


def sample(vaults: Vaults, instance: str, items: Iterator[Item], count: int) -> list[Item]:
    """Return up to so many objects that are there, of exact keys and below prefixes."""
    found: list[Item] = []
    for item in items:
        vault = vaults.get(instance, item.vault)
        if item.prefix:
            keys = [o.key for page in islice(vault.list(item.key), 1) for o in page[:PER_MARK]]
        else:
            keys = [o.key for o in vault.stat([item.key])]
        found += [Item(item.vault, key) for key in keys]
        if len(found) >= count:
            break
    return found[:count]


def run(
    registrar: Registrar,
    vaults: Vaults,
    wanted: Protection,
    items: Sequence[Item],
    seconds: int,
    round_: Callable[[], RoundReport],
    release: Callable[[], object],
) -> SelfTest:
    """Protect the objects, run a round, release them, run another; return what was seen.

    Args:
        registrar: of the instance's deployment.
        vaults: proved ones.
        wanted: instance, job, owner and digest.
        items: what ``sample`` found.
        seconds: for how long they are protected at most, should we die.
        round_: runs one round and returns its report.
        release: ends the protection.
    """
    registrar.register_at_once(wanted, items, seconds)
    released = False
    try:
        first = round_()
        lost = _missing(vaults, wanted.instance, items)
        release()
        released = True
        second = round_()
    finally:
        if not released:
            release()
    stayed = [i for i in items if i not in set(_missing(vaults, wanted.instance, items))]
    return SelfTest(
        job=wanted.job,
        objects=_names(items),
        rounds=(first.round, second.round),
        lost=_names(lost),
        stayed=_names(stayed),
        kept=second.kept,
    )


def _missing(vaults: Vaults, instance: str, items: Sequence[Item]) -> list[Item]:
    of: dict[str, list[str]] = {}
    for item in items:
        of.setdefault(item.vault, []).append(item.key)
    there = {(name, o.key) for name, keys in of.items() for o in vaults.get(instance, name).stat(sorted(keys))}
    return [i for i in items if (i.vault, i.key) not in there]


def _names(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(f"{i.vault}/{i.key}" for i in items)
