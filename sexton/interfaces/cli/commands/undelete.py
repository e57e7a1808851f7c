"""`sexton undelete`: in a versioned bucket, take away the delete markers that hide what was deleted."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, opened, recorded
from sexton.interfaces.cli.output import dump, many, size
from sexton.kernel.errors import BadInput
from sexton.storage.model import Undeleted

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.database.engine import Database
    from sexton.storage.vaults import ProvenVaults


def undelete(
    instance: Annotated[str, typer.Argument(help="The instance.")],
    vault: Annotated[str, typer.Option(help="The vault; with --round only what it hid there.")] = "",
    prefix: Annotated[str, typer.Option(help="Keys of the vault that begin with this.")] = "",
    number: Annotated[int | None, typer.Option("--round", help="What this round hid.", min=1, max=2**63 - 1)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, and do not count before.")] = False,
    as_json: Json = False,
) -> None:
    """Show again what deletes have hidden in a versioned bucket. Safe to repeat.

    The newest version of each key becomes visible; keys that are visible are left alone.
    Exit code 1 when something could not be undeleted.

    Example: sexton undelete shop --vault cold --prefix data/12/
    """
    from sexton.operators.registry.store import Registry
    from sexton.operators.registry.undelete_check import ensure_undelete_is_safe
    from sexton.storage.vaults import ProvenVaults

    if (number is None) is (not prefix) or (prefix and not vault):
        raise WrongUsage("say what: --vault V --prefix P, or --round R")
    with opened() as (settings, db):
        registry = Registry(db)
        registry.instance(instance)
        vaults = ProvenVaults(registry.vault, settings.require_deployment(), settings.s3.endpoint_url)
        hidden = {vault: list[str]()} if number is None else _hidden_by(settings, db, instance, number, vault)
        for name, keys in hidden.items():
            vaults.get(instance, name)
            ensure_undelete_is_safe(db, instance, name, prefix, keys)

        def go(*, only_count: bool) -> Undeleted:
            parts = (_pages(vaults, instance, name, prefix, keys, only_count) for name, keys in hidden.items())
            return _sum(page for part in parts for page in part)

        counted = go(only_count=True) if dry_run or not yes else None
        if counted is not None and not dry_run:
            typer.echo(_said(counted, "to undelete: "), err=True)
            if counted.shown:
                typer.confirm("show them again?", abort=True, err=True)
        if counted is not None and (dry_run or not counted.shown):
            done = counted
        else:
            what = f"{vault}/{prefix}" if number is None else f"round {number} {vault}".rstrip()
            with recorded(db, "undelete", instance, what):
                done = go(only_count=False)
    if as_json:
        dump(done.model_dump() | {"dry_run": dry_run})
    else:
        typer.echo(_said(done, "would undelete: " if dry_run else "undeleted: "))
    if done.failed:
        raise typer.Exit(1)


def _hidden_by(settings: "Settings", db: "Database", instance: str, number: int, only: str) -> dict[str, list[str]]:
    """Return vault → keys that a round hid, from the audit, whole or an error."""
    from sexton.interfaces.operator_service import OperatorService
    from sexton.storage.model import KeyOutcome

    found: dict[str, dict[str, None]] = {}
    for row in OperatorService(settings, db).audit.rows(number):
        if row.instance != instance:
            raise BadInput(f"round {number} is of instance {row.instance}, not of {instance}")
        if row.outcome == KeyOutcome.HIDDEN and (not only or row.vault == only):
            found.setdefault(row.vault, {})[row.key] = None
    if not found:
        where = f" in vault {only}" if only else ""
        raise BadInput(
            f"round {number} hid nothing{where}, as the audit knows it; what it deleted in a bucket that is not "
            "versioned is gone"
        )
    return {name: list(keys) for name, keys in found.items()}


def _pages(
    vaults: "ProvenVaults", instance: str, name: str, prefix: str, keys: Sequence[str], only_count: bool
) -> Iterator[Undeleted]:
    for page in vaults.get(instance, name).undelete(prefix, keys, dry_run=only_count):
        vaults.get(instance, name)  # still ours before the next page
        yield page


def _sum(pages: Iterable[Undeleted]) -> Undeleted:
    total = Undeleted()
    for page in pages:
        both = total.model_dump(exclude={"reason"}), page.model_dump(exclude={"reason"})
        total = Undeleted(**{k: n + both[1][k] for k, n in both[0].items()}, reason=total.reason or page.reason)
    return total


def _said(counts: Undeleted, what: str) -> str:
    lines = [
        f"{what}{many(counts.shown, 'object')}, {size(counts.bytes)}, under {many(counts.markers, 'delete marker')}"
        f" ({many(counts.looked_at, 'key')} looked at)"
    ]
    if counts.nothing_left:
        lines.append(f"{many(counts.nothing_left, 'key')}: no version is left, only delete markers")
    if counts.failed:
        lines.append(f"{many(counts.failed, 'key')} failed, the first: {counts.reason}")
    return "\n".join(lines)
