"""Register protections over a rig, and look at what rounds leave in its vault."""

from pathlib import Path

from sexton.contract import NewMark
from sexton.protection.filter import Filter
from sexton.protection.model import Item, Protection
from sexton.protection.policy import digest
from tests.support.rig import Rig, listing, put

DUE = 10_801


def garbage(rig: Rig, tmp_path: Path) -> Path:
    """Return the directory of vault ``disk``, with garbage of four marks in it."""
    root = rig.local(tmp_path / "v")
    for name in ("a", "b", "c"):
        rig.drop(root, f"data/{name}.dat", name)
    for name in ("x", "y"):
        put(root, f"dir/{name}.dat")
    rig.mark("dropped", NewMark(id="dir", vault="disk", prefix="dir/"))
    rig.later(DUE)
    return root


def registration(job: str, *items: Item, filter_: Filter | None = None, **more: object) -> Protection:
    """Return a registration of items or a filter for a job of the owner ada."""
    sum_ = digest(items, b"" if filter_ is None else bytes(filter_))
    return Protection(instance="shop", job=job, owner="ada", digest=sum_, **more)


def protect(rig: Rig, job: str, *keys: str, seconds: int | None = None, **more: object) -> Protection:
    """Register a protection of keys and prefixes (which end with /) of vault ``disk``; return it."""
    items = [Item("disk", key, key.endswith("/")) for key in keys]
    return rig.registrar.register_at_once(registration(job, *items, **more), items, seconds)


def same_protection(one: Protection, other: Protection) -> bool:
    """Return whether two answers are of one protection; only its end may have moved forward."""
    return one.expires_at >= other.expires_at and one.model_copy(update={"expires_at": other.expires_at}) == other


def remaining_keys(root: Path) -> set[str]:
    """Return the keys that a vault's directory still holds."""
    return set(listing(root))
