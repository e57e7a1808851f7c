"""Decide the retentions and the order of the kinds that owners declare."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from config.sections import KindSection, RecycleSection
from sexton.recycle.planning.model import OwnerPolicy

if TYPE_CHECKING:
    from sexton.owners.plugin import OwnerKind, OwnerPlugin


def owner_policies(recycle: RecycleSection, kinds: Mapping[str, KindSection]) -> dict[str, OwnerPolicy]:
    """Return what the settings say of the kinds of each owner that is installed."""
    from sexton.owners.plugins import installed

    plugins = {name: owner.plugin for name, owner in installed().items() if owner.plugin is not None}
    return {
        name: owner_policy(plugin, {kind.name: _retention(kind, recycle, kinds) for kind in plugin.kinds})
        for name, plugin in plugins.items()
        if plugin.kinds
    }


def owner_policy(plugin: "OwnerPlugin", retention_seconds: Mapping[str, int]) -> OwnerPolicy:
    """Return a policy for an owner's kinds with these retentions."""
    return OwnerPolicy(
        retention_seconds=dict(retention_seconds),
        after=dict(plugin.after),
        fileless=tuple(kind.name for kind in plugin.kinds if not kind.has_files),
        unlimited=tuple(kind.name for kind in plugin.kinds if not kind.limited),
    )


def _retention(kind: "OwnerKind", recycle: RecycleSection, kinds: Mapping[str, KindSection]) -> int:
    """Return the retention of an owner's kind in seconds."""
    if kind.setting:
        return int(getattr(recycle, kind.setting))
    own = None if kind.fixed else kinds.get(kind.name)
    return kind.own_retention if own is None else own.retention_seconds
