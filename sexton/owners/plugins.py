"""Find the owners that are installed, and front ends: the folders beside this file, entry points of other packages."""

import importlib
import importlib.util
import logging
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import NamedTuple

from pydantic import ValidationError

import sexton.owners
from sexton.database.engine import Database
from sexton.kernel.errors import BadInput, SextonError, WrongUsage, missing_extra
from sexton.kernel.trust import Trust
from sexton.marks.sql.keeper import Keeper
from sexton.operators.registry import add_remove
from sexton.operators.registry.store import Registry
from sexton.owners.plugin import CallOptions, FrontEndOptions, OwnerContext, OwnerPlugin
from sexton.owners.port import Owner, OwnerSilent

GROUP = "sexton.owners"
WRONG_OPTION = {"missing": "is missing", "extra_forbidden": "is unknown"}
"""Pydantic's kinds of errors → what an operator reads."""
log = logging.getLogger(__name__)


class Installed(NamedTuple):
    """An owner of this installation. ``error``: why it cannot be loaded. ``package``: empty for one of Sexton's."""

    name: str
    package: str = ""
    plugin: OwnerPlugin | None = None
    error: str = ""


@cache
def installed() -> Mapping[str, Installed]:
    """Return every owner by its name. One that cannot be loaded is among them: only its own instances need it."""
    folders = [module.name for module in pkgutil.iter_modules(sexton.owners.__path__) if module.ispkg]
    modules = {name: f"{sexton.owners.__name__}.{name}.plugin" for name in folders}
    own = {name: module for name, module in modules.items() if importlib.util.find_spec(module)}
    owners = {name: Installed(name, plugin=importlib.import_module(module).PLUGIN) for name, module in own.items()}
    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist is not None else point.value
        if point.name in owners:
            log.error("package %s declares owner %s, which exists; it is not used", package, point.name)
            continue
        try:
            plugin = point.load()
        except Exception as e:  # code of another package, which may fail in any way
            log.exception("owner %s of package %s cannot be loaded", point.name, package)
            owners[point.name] = Installed(point.name, package, error=f"{type(e).__name__}: {e}")
            continue
        error = "" if isinstance(plugin, OwnerPlugin) else f"{plugin!r} is no sexton.owners.plugin.OwnerPlugin"
        owners[point.name] = Installed(point.name, package, None if error else plugin, error)
    return owners


def find(name: str) -> OwnerPlugin:
    """Return a plugin; ``BadInput``: it is not installed here, or cannot be loaded."""
    owner = installed().get(name)
    if owner is None:
        raise BadInput(
            f"owner {name!r} is not installed; installed are: {', '.join(sorted(installed()))}. Install the package "
            f"that declares it in the environment of every worker and command (entry point group {GROUP})"
        )
    if owner.plugin is None:
        raise BadInput(f"owner {name} of package {owner.package} cannot be loaded: {owner.error}")
    return owner.plugin


def build(context: OwnerContext, name: str) -> Owner:
    """Return an owner; ``OwnerSilent``: it is not installed here, or cannot be built."""
    try:
        return find(name).build(context)
    except Exception as e:  # code of another package
        extra = missing_extra(e) if isinstance(e, ModuleNotFoundError) else ""
        reason = str(e) if isinstance(e, SextonError) else extra or repr(e)
        raise OwnerSilent(f"owner {name} cannot be used: {reason}") from e


def add_instance(
    db: Database,
    registry: Registry,
    instance: str,
    owner: str = "sql",
    options: Mapping[str, str] | None = None,
    *,
    underscore_in_ids: bool = False,
) -> None:
    """Register an instance with an installed owner, in observe mode. Repeating it may correct its options.

    Raises:
        BadInput: the owner is not installed, an option is wrong, or the instance is registered otherwise.
    """
    plugin = find(owner)
    if underscore_in_ids and plugin.no_underscore:
        raise WrongUsage(f"ids of owner {owner} contain no _: {plugin.no_underscore}")
    options = options or {}
    try:
        plugin.options.model_validate(options, extra="forbid")
    except ValidationError as e:
        problems = "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {WRONG_OPTION.get(error['type'], error['msg'])}"
            for error in e.errors()
        )
        known = ", ".join(plugin.options.model_fields) or "none"
        raise WrongUsage(f"the options of owner {owner} are wrong: {problems}. It has the options: {known}") from e
    plugin.create_tables(db)
    registry.add_instance(
        instance,
        owner,
        owner_options=dict(sorted(options.items())),
        underscore_in_ids=underscore_in_ids,
        knows_live=plugin.knows_live,
        key_pattern=plugin.key_pattern,
    )


def remove_instance(db: Database, registry: Registry, keepers: Sequence[Keeper], instance: str) -> None:
    """Remove an instance and what its owner keeps of it in this database; raises as ``add_remove.remove_instance``."""
    plugin = find(registry.instance(instance).owner)
    add_remove.remove_instance(db, keepers, instance, lambda c: plugin.forget_records(c, instance))


class FrontEnds:
    """The front ends that instances were added with, of any owner."""

    def __init__(self, registry: Registry, trust: Trust) -> None:
        self._registry, self._trust = registry, trust

    def kinds(self, instance: str) -> Sequence[str]:
        """Return the kinds of records that the front end is asked for; empty: there is none."""
        options = self._options(instance)
        return options.front_end_kinds.split(",") if options.front_end else ()

    def ids(self, instance: str, kind: str, after: str, limit: int) -> Sequence[str]:
        """Return the next ids of a kind that the front end has in memory: see ``OwnerCaller.inventory``."""
        from sexton.owners.caller import OwnerCaller  # it needs an extra, which instances without a front end do not

        options = self._options(instance)
        call = CallOptions(**options.model_dump() | {"url": options.front_end})
        return OwnerCaller(call, self._trust).inventory(kind, after, limit)

    def _options(self, instance: str) -> FrontEndOptions:
        row = self._registry.instance(instance)
        options = find(row.owner).options.model_validate(row.owner_options)
        return options if isinstance(options, FrontEndOptions) else FrontEndOptions()
