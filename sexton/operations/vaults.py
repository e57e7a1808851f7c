"""Vaults: a bucket with a prefix, or a directory; where objects are, and how fast they are deleted from it."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from sexton.kernel.errors import WrongUsage
from sexton.kernel.message import Message, Page
from sexton.operations.fields import Covered, Flag, Instance, Reason, Remark, Whole
from sexton.operations.registry import Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.recycle.pacing.model import Cap
from sexton.storage.kinds import read_place
from sexton.storage.model import Probe, VaultSpec
from sexton.storage.policy import unsupported_options

PROVED = "ours"
"""Shown for a vault whose identity was proved."""
VAULT_PATH = "/v1/instances/{instance}/vaults/{vault}"
Vault = Annotated[str, Field(max_length=63, description="The vault.")]
Rate = Annotated[Whole, Field(ge=1, le=1_000_000, description="The most objects deleted in a second.")]


class ShownVault(Message):
    """A vault. ``proof``: ``ours``, or why it could not be proved just now; empty: that was not asked.

    ``last_fault``: the fault that the last round met in it, with the store's answer to the worker; empty: none.
    """

    instance: str
    vault: str
    kind: str
    place: str
    endpoint: str
    versions: str
    conditional: bool
    inventory: str
    keys_per_second: int | None
    """The cap of its deletions; None: it has none."""
    proof: str = ""
    last_fault: str = ""


class AddedVault(Message):
    """A vault that is registered. ``fault``: why rounds of its instance keep every mark; empty: they need not.

    ``already``: it was registered before, with the same values.
    """

    instance: str
    vault: str
    kind: str
    place: str
    marker: str
    fault: str = ""
    already: bool = False


class RemovedVault(Message):
    """A vault that was removed. ``had_marker``: its marker was removed, too; otherwise there was none of it."""

    instance: str
    vault: str
    had_marker: bool


class Trusted(Message):
    """A vault whose marker names ``round`` now, the newest round of this database."""

    instance: str
    vault: str
    round: int


class Probed(Probe):
    """What a store does. ``unsupported``: which option of the vault it does not support; empty: none."""

    unsupported: str = ""


class Uncapped(Message):
    """A vault without a cap."""

    instance: str
    vault: str
    had_cap: bool


@operation("vault add", "", Grant.ADMIN, Logged("{name}"))
def add_vault(
    call: Call,
    instance: Instance,
    name: Annotated[
        str, Flag(shown="VAULT"), Field(description="The name marks use: lower-case letters, digits, - and _.")
    ],
    *,
    at: Annotated[
        str,
        Flag(shown="URL"),
        Field(description="The place as a URL, instead of --s3 or --local: s3://BUCKET/PREFIX or file:///DIR."),
    ] = "",
    s3: Annotated[str, Flag(shown="BUCKET[/PREFIX]"), Field(description="BUCKET or BUCKET/PREFIX.")] = "",
    local: Annotated[str, Flag(shown="DIR"), Field(description="An existing directory.")] = "",
    endpoint: Annotated[str, Field(description="S3 endpoint URL; default: the setting s3.endpoint_url.")] = "",
    region: Annotated[str, Field(description="S3 region.")] = "",
    profile: Annotated[str, Field(description="AWS profile whose credentials are used.")] = "",
    versions: Annotated[
        Literal["keep", "purge"],
        Field(description="In a versioned bucket: keep (hide; `sexton undelete`) or purge."),
    ] = "keep",
    conditional: Annotated[
        bool, Field(description="Delete an object only while it has the ETag that was resolved.")
    ] = False,
    inventory: Annotated[
        str,
        Flag(shown="URL"),
        Field(
            pattern="^(s3://[^/]+(/.*)?)?$",
            description="Checks read the inventories of the bucket at s3://BUCKET/PREFIX instead of listing.",
        ),
    ] = "",
    take_over: Annotated[
        bool, Field(description="Accept the marker of an unregistered vault of this deployment.")
    ] = False,
) -> AddedVault:
    """Register a vault.

    Overlaps are refused. Then the behaviour of the store is probed, and the marker and the row are written. Safe to
    repeat. The marker is `_sexton/vault.json`; the probe works in `_sexton/probe/` and cleans up.

    --take-over is for a marker that another name or instance of this deployment left without a row in the database.

    Example: sexton vault add shop cold --s3 shop-data/prod
    """
    given = (at, s3 and f"s3://{s3.removeprefix('s3://')}", local and f"file://{Path(local).absolute()}")
    urls = [url for url in given if url]
    if len(urls) != 1:
        raise WrongUsage("name one place: --s3 BUCKET[/PREFIX], --local DIR or --at URL")
    kind, location, prefix = read_place(urls[0])
    spec = VaultSpec(
        instance=instance,
        name=name,
        kind=kind,
        location=location,
        prefix=prefix,
        endpoint=endpoint,
        region=region,
        profile=profile,
        versions=versions,
        conditional=conditional,
        inventory=inventory,
    )
    already = name in [vault.name for vault in call.stores.registry.vaults(instance)]
    added = call.deployment.add_vault(spec, take_over=take_over)
    return AddedVault(
        instance=instance,
        vault=added.name,
        kind=added.kind,
        place=f"{added.location}/{added.prefix}",
        marker=added.uuid,
        fault=call.deployment.live_fault(instance),
        already=already,
    )


@operation("vault remove", "", Grant.ADMIN, Logged("{vault}"))
def remove_vault(
    call: Call,
    instance: Instance,
    vault: Vault,
    *,
    gone: Annotated[
        bool, Field(description="Its bucket or directory is gone; marks in it are quarantined, and can be discarded.")
    ] = False,
    reason: Remark = "",
) -> RemovedVault:
    """Remove a vault that is no longer needed, and its marker. Every object stays.

    Refused while marks or keepers (such as holds) need it, and in an older copy of the database.

    Example: sexton vault remove shop cold
    """
    had_marker = call.deployment.remove_vault(instance, vault, gone=gone)
    return RemovedVault(instance=instance, vault=vault, had_marker=had_marker)


@operation("vault list", "GET /v1/instances/{instance}/vaults", Grant.READ, Logged(changes=False, long=True))
def vaults(
    call: Call,
    instance: Covered = None,
    *,
    prove: Annotated[bool, Field(description="Compare the marker of each vault now, and name the fault.")] = True,
) -> Page[ShownVault]:
    """Print vaults, and prove each of them now.

    A proved vault exists and belongs to this deployment. A fault that the last round met there is shown, too. Exit
    code 1: the proof of a vault failed.

    Example: sexton vault list shop
    """
    caps = {(cap.instance, cap.vault): cap.keys_per_second for cap in call.stores.paces.caps(instance)}
    fault, specs = call.stores.vaults.fault, call.stores.registry.vaults(instance)
    last = call.stores.reports.newest_reports({spec.instance for spec in specs})
    rows = (
        ShownVault(
            **spec.model_dump(include={"instance", "kind", "versions", "conditional", "inventory"}),
            vault=spec.name,
            place=f"{spec.location}/{spec.prefix}",
            endpoint=spec.endpoint or "default",
            keys_per_second=caps.get((spec.instance, spec.name)),
            proof=(fault(spec.instance, spec.name) or PROVED) if prove else "",
            last_fault=last[spec.instance].vault_fault(spec.name) if spec.instance in last else "",
        )
        for spec in specs
    )
    return Page[ShownVault](items=tuple(rows))


@operation("vault cap", f"PUT {VAULT_PATH}/cap", Grant.OPERATE, Logged("{vault}: {rate}/s", keeps=True))
def cap(call: Call, instance: Instance, vault: Vault, rate: Rate, *, reason: Remark = "") -> Cap:
    """Cap the deletions in a vault over all workers, within 5 s. Repeatable; needs no Temporal.

    Example: sexton vault cap shop cold 500 --reason 'the bucket is shared'
    """
    call.stores.registry.vault(instance, vault)
    return call.stores.paces.put_cap(f"{instance}/{vault}", rate, reason, call.by)


@operation("vault uncap", f"DELETE {VAULT_PATH}/cap", Grant.OPERATE, Logged("{vault}"))
def uncap(call: Call, instance: Instance, vault: Vault) -> Uncapped:
    """Remove the cap of a vault. Repeatable.

    Example: sexton vault uncap shop cold
    """
    call.stores.registry.vault(instance, vault)
    _, had_cap = call.stores.paces.clear_cap(f"{instance}/{vault}")
    return Uncapped(instance=instance, vault=vault, had_cap=had_cap)


@operation("vault probe", f"POST {VAULT_PATH}/probe", Grant.OPERATE, Logged("{vault}", long=True))
def probe_vault(call: Call, instance: Instance, vault: Vault) -> Probed:
    """Probe a vault's store again.

    The result is stored and printed. Workers use it within 5 s.

    Exit code 1: the store does not support the vault's options.

    Example: sexton vault probe shop cold
    """
    result = call.deployment.probe(instance, vault)
    spec = call.stores.registry.vault(instance, vault)
    stored = spec.probe or result
    return Probed(**stored.model_dump(), unsupported=unsupported_options(spec, stored))


@operation("vault trust", f"POST {VAULT_PATH}/trust", Grant.ADMIN, Logged("{vault}", asks=True))
def trust_vault(call: Call, instance: Instance, vault: Vault, *, reason: Reason) -> Trusted:
    """Allow deletions in a vault after a restore.

    It resolves fault BEHIND: a newer copy of this database has deleted in the vault. First verify that no mark of this
    copy was undropped in the newer one: its files would be deleted.

    Example: sexton vault trust shop cold --reason 'restored from last night; nothing was undropped since'
    """
    return Trusted(instance=instance, vault=vault, round=call.deployment.trust(instance, vault))
