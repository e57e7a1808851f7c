"""`sexton vault`: the places an instance's files are in."""

from typing import Annotated, Literal

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, opened, recorded
from sexton.interfaces.cli.output import dump, show

app = typer.Typer(help="Vaults: a bucket with a prefix, or a directory.", no_args_is_help=True)
OURS = "ours"
"""What is said of a vault that was proved."""


@app.command("add")
def add(
    instance: Annotated[str, typer.Argument(help="The instance.")],
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
) -> None:
    """Register a vault: refuse overlaps, try what its store really does, write its marker, then its row.

    Safe to repeat. The marker is `_sexton/vault.json`; the probe works in `_sexton/probe/` and cleans up.

    Example: sexton vault add shop cold --s3 shop-data/prod
    """
    from sexton.operators.registry.add_vault import add_vault
    from sexton.operators.registry.store import Registry
    from sexton.storage.model import VaultSpec

    if bool(s3) == bool(local):
        raise WrongUsage("name one place: --s3 BUCKET[/PREFIX] or --local DIR")
    if local and (endpoint or region or profile or conditional or versions != "keep"):
        raise WrongUsage("--endpoint, --region, --profile, --versions and --conditional go with --s3")
    if versions not in ("keep", "purge"):
        raise WrongUsage(f"--versions is keep or purge, not {versions!r}")
    bucket, slash, prefix = s3.removeprefix("s3://").partition("/")
    if slash and not prefix.strip("/"):
        raise WrongUsage(f"{s3!r} names no prefix (is a variable empty?); for the whole bucket write {bucket}")
    prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
    kind: Literal["s3", "local"] = "local" if local else "s3"
    with opened() as (settings, db):
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
        with recorded(db, "vault add", instance, name):
            made = add_vault(Registry(db), spec, settings.require_deployment(), settings.s3.endpoint_url)
    typer.echo(f"vault {made.name} of {instance} is {made.kind} {made.location}/{made.prefix}, marker {made.uuid}")


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None, as_json: Json = False
) -> None:
    """Print vaults, each proved this moment: is it there, and is it ours? Exit code 1 when one is not.

    Example: sexton vault list shop
    """
    from sexton.operators.registry.store import Registry
    from sexton.storage.port import VaultFault
    from sexton.storage.vaults import ProvenVaults

    rows = []
    with opened() as (settings, db):
        registry = Registry(db)
        if instance is not None:
            registry.instance(instance)
        vaults = ProvenVaults(
            registry.vault,
            settings.require_deployment(),
            settings.s3.endpoint_url,
            knows_round=registry.knows_round,
        )
        for v in registry.vaults(instance):
            try:
                vaults.get(v.instance, v.name)
                proof = OURS
            except VaultFault as e:
                proof = f"{e.reason}: {e.detail}"
            place = f"{v.location}/{v.prefix}"
            rows.append((v.instance, v.name, v.kind, place, v.endpoint or "default", v.versions, v.conditional, proof))
    columns = ("instance", "vault", "kind", "place", "endpoint", "versions", "conditional", "proof")
    if as_json:
        dump([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        printed = [(*row[:-2], "yes" if row[-2] else "no", row[-1]) for row in rows]
        show("" if rows else "no vault is registered; add one: sexton vault add", columns, printed)
    if any(row[-1] != OURS for row in rows):
        raise typer.Exit(1)


@app.command("trust")
def trust(
    instance: Annotated[str, typer.Argument(help="The instance.")],
    name: Annotated[str, typer.Argument(help="The vault.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """After a restore: let this database delete in a vault where a newer copy of it has deleted (fault BEHIND).

    First see that nothing marked in this copy was taken back in the newer one: it would be deleted.

    Example: sexton vault trust shop cold
    """
    from sexton.kernel.errors import BadInput
    from sexton.operators.registry.store import Registry
    from sexton.storage.vaults import ProvenVaults

    with opened() as (settings, db):
        registry = Registry(db)
        deployment, endpoint = settings.require_deployment(), settings.s3.endpoint_url
        vault = ProvenVaults(registry.vault, deployment, endpoint).get(instance, name)  # all but the round is proved
        marker = vault.read_marker()
        number, run = registry.last_round(instance)
        if marker is None:
            raise BadInput(f"vault {name} has no marker any more; see: sexton vault list {instance}")
        typer.echo(f"round {marker.round} deleted in {name}; the newest round this database knows is {number}")
        if not yes:
            typer.confirm("may rounds of this database delete in it?", abort=True, err=True)
        with recorded(db, "vault trust", instance, name):
            vault.replace_marker(marker.model_copy(update={"round": number, "run": run}))
    typer.echo(f"vault {name} of {instance} is this database's again")


@app.command("probe")
def probe(
    instance: Annotated[str, typer.Argument(help="The instance.")],
    name: Annotated[str, typer.Argument(help="The vault.")],
    as_json: Json = False,
) -> None:
    """Try again what a vault's store really does; store and print it. Workers go by it within 5 s.

    Exit code 1 when the store does not do what the vault's options need.

    Example: sexton vault probe shop cold
    """
    from sexton.interfaces.cli.render.probe import features
    from sexton.kernel.errors import BadInput
    from sexton.operators.registry.store import Registry
    from sexton.storage.policy import lacks
    from sexton.storage.vaults import ProvenVaults

    with opened() as (settings, db):
        registry = Registry(db)
        vaults = ProvenVaults(registry.vault, settings.require_deployment(), settings.s3.endpoint_url)
        seen = vaults.get(instance, name).probe()
        registry.store_probe(instance, name, seen)
        spec = registry.vault(instance, name)
    found = spec.probe or seen
    if as_json:
        dump(found.model_dump())
    else:
        show("", ("feature", "seen", "what it means"), features(found))
    if lack := lacks(spec, found):
        raise BadInput(f"vault {name} of {instance} cannot work as it is registered: {lack}")
