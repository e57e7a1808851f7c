"""`sexton vault`: register the places that hold an instance's files, and prove them."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sexton.interfaces.cli.commands.instance import live_fault
from sexton.interfaces.cli.context import WrongUsage, log_call, open_database
from sexton.interfaces.cli.groups import EMERGENCIES
from sexton.interfaces.cli.json_output import emit, emit_list, wants_json
from sexton.interfaces.cli.output import show_table

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService
    from sexton.storage.model import VaultSpec

app = typer.Typer(help="Vaults: a bucket with a prefix, or a directory.", no_args_is_help=True)
PROVED = "ours"
"""Shown for a vault whose identity was proved."""
Instance = Annotated[str, typer.Argument(help="The instance.")]
Name = Annotated[str, typer.Argument(metavar="VAULT", help="The vault.")]


@app.command("add")
def add(
    instance: Instance,
    name: Annotated[str, typer.Argument(help="The name marks use: lower-case letters, digits, - and _.")],
    s3: Annotated[str, typer.Option(help="BUCKET or BUCKET/PREFIX.", metavar="BUCKET[/PREFIX]")] = "",
    local: Annotated[str, typer.Option(help="An existing directory.", metavar="DIR")] = "",
    endpoint: Annotated[str, typer.Option(help="S3 endpoint URL; default: the setting s3.endpoint_url.")] = "",
    region: Annotated[str, typer.Option(help="S3 region.")] = "",
    profile: Annotated[str, typer.Option(help="AWS profile whose credentials are used.")] = "",
    versions: Annotated[
        str, typer.Option(help="In a versioned bucket: keep (hide; `sexton undelete`) or purge.", metavar="keep|purge")
    ] = "keep",
    conditional: Annotated[
        bool, typer.Option("--conditional", help="Delete an object only while it has the ETag that was resolved.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Accept the marker of an unregistered vault of this deployment.")
    ] = False,
) -> None:
    """Register a vault.

    Overlaps are refused. Then the behaviour of the store is probed, and the marker and the row are written. Safe to
    repeat. The marker is `_sexton/vault.json`; the probe works in `_sexton/probe/` and cleans up.

    --take-over is for a marker that another name or instance of this deployment left without a row in the database.

    Example: sexton vault add shop cold --s3 shop-data/prod
    """
    from sexton.storage.model import VaultSpec

    if bool(s3) == bool(local):
        raise WrongUsage("name one place: --s3 BUCKET[/PREFIX] or --local DIR")
    if local and (endpoint or region or profile or conditional or versions != "keep"):
        raise WrongUsage("--endpoint, --region, --profile, --versions and --conditional go with --s3")
    if versions not in ("keep", "purge"):
        raise WrongUsage(f"--versions is keep or purge, not {versions!r}")
    bucket, prefix = _bucket_and_prefix(s3)
    kind: Literal["s3", "local"] = "local" if local else "s3"
    with open_database() as service:
        spec = VaultSpec(
            instance=instance,
            name=name,
            kind=kind,
            location=local or bucket,
            prefix=prefix,
            endpoint=endpoint,
            region=region,
            profile=profile,
            versions="purge" if versions == "purge" else "keep",
            conditional=conditional,
        )
        with log_call(service, "vault add", instance, name):
            added = service.add_vault(spec, take_over=take_over)
        fault = live_fault(service, instance)
    place = f"{added.kind} {added.location}/{added.prefix}"
    typer.echo(f"vault {added.name} of {instance} is {place}, marker {added.uuid}")
    if fault:
        typer.echo(
            f"warning: rounds keep every mark of {instance}: {fault}; if an option of the instance is wrong, repeat "
            "sexton instance add with the right ones; check again with: sexton doctor",
            err=True,
        )


@app.command("list")
def list_(instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None) -> None:
    """Print vaults, and prove each of them now.

    A proved vault exists and belongs to this deployment. Exit code 1: the proof of a vault failed.

    Example: sexton vault list shop
    """
    with open_database() as service:
        registry = service.stores.registry
        if instance is not None:
            registry.instance(instance)
        rows = [_row(v, service.stores.vaults.fault(v.instance, v.name) or PROVED) for v in registry.vaults(instance)]
    columns = ("instance", "vault", "kind", "place", "endpoint", "versions", "conditional", "proof")
    if wants_json():
        emit_list([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        printed = [(*row[:-2], "yes" if row[-2] else "no", row[-1]) for row in rows]
        show_table("" if rows else "no vault is registered; add one: sexton vault add", columns, printed)
    if any(row[-1] != PROVED for row in rows):
        raise typer.Exit(1)


@app.command("trust", rich_help_panel=EMERGENCIES)
def trust(
    instance: Instance,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Allow deletions in a vault after a restore.

    It resolves fault BEHIND: a newer copy of this database has deleted in the vault. First verify that no mark of this
    copy was undropped in the newer one: its files would be deleted.

    Example: sexton vault trust shop cold
    """
    with open_database() as service:
        trust_vault(service, instance, name, ask=not yes)


def trust_vault(service: "OperatorService", instance: str, name: str, *, ask: bool = False) -> None:
    """Make a vault's marker name the newest round of this database. ``ask``: the operator must confirm it."""
    from sexton.kernel.errors import BadInput

    # Everything is proved except the last round, which is what this repairs.
    marker = service.stores.vaults_of_any_round.get(instance, name).read_marker()
    if marker is None:
        raise BadInput(f"vault {name} no longer has a marker; see: sexton vault list {instance}")
    last_round = service.stores.markers.last_round(instance)
    claim = f"claim {marker.claim} of " if marker.claim else ""
    typer.echo(f"{claim}round {marker.round} deleted in {name}; the newest round in this database is {last_round}")
    if ask:
        typer.confirm("Allow rounds of this database to delete in it?", abort=True, err=True)
    with log_call(service, "vault trust", instance, name):
        service.trust(instance, name)
    typer.echo(f"vault {name} of {instance} belongs to this database again")


@app.command("probe")
def probe(instance: Instance, name: Name) -> None:
    """Probe a vault's store again.

    The result is stored and printed. Workers use it within 5 s.

    Exit code 1: the store does not support the vault's options.

    Example: sexton vault probe shop cold
    """
    from sexton.interfaces.probe_rows import feature_rows
    from sexton.kernel.errors import BadInput
    from sexton.storage.policy import unsupported_options

    with open_database() as service:
        with log_call(service, "vault probe", instance, name):
            result = service.probe(instance, name)
        spec = service.stores.registry.vault(instance, name)
    stored = spec.probe or result
    if wants_json():
        emit(stored)
    else:
        show_table("", ("feature", "seen", "what it means"), feature_rows(stored))
    if unsupported := unsupported_options(spec, stored):
        raise BadInput(f"vault {name} of {instance} cannot work as it is registered: {unsupported}")


def _bucket_and_prefix(s3: str) -> tuple[str, str]:
    """Split ``BUCKET/PREFIX``; the prefix is empty or ends with a slash."""
    bucket, slash, prefix = s3.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    if slash and not prefix:
        raise WrongUsage(f"{s3!r} names no prefix (is a variable empty?); for the whole bucket write {bucket}")
    return bucket, f"{prefix}/" if prefix else ""


def _row(vault: "VaultSpec", proof: str) -> tuple[object, ...]:
    place = f"{vault.location}/{vault.prefix}"
    endpoint = vault.endpoint or "default"
    return vault.instance, vault.name, vault.kind, place, endpoint, vault.versions, vault.conditional, proof
