"""Add a vault: refuse overlaps, probe it, write its marker, then its row. Repeating it after a crash finishes it."""

import uuid
from pathlib import Path

from sexton.kernel.errors import BadInput
from sexton.operators.registry.store import Registry
from sexton.storage.model import Marker, VaultSpec
from sexton.storage.policy import lacks
from sexton.storage.vaults import open_vault


def add_vault(registry: Registry, spec: VaultSpec, deployment: str, endpoint_url: str) -> VaultSpec:
    """Make a place a vault of ours and return it as registered.

    The marker comes first: a row without its marker would only be a fault, a marker without its row is found again by
    repeating the command.

    Raises:
        BadInput: the vault overlaps another, its name is taken, the place belongs to somebody else, or its store does
            not do what the vault's options need.
        VaultFault: the place cannot be reached or does not exist.
    """
    if spec.kind == "local":
        if spec.conditional or spec.versions != "keep":
            raise BadInput("a directory has no versions and no ETags: leave --versions and --conditional out")
        spec = spec.model_copy(update={"location": str(Path(spec.location).resolve())})
        if spec.location == "/":
            raise BadInput("the whole file system is no vault; name a directory (is a variable empty?)")
    spec = spec.model_copy(update={"deployment": deployment})
    registry.check_new_vault(spec, endpoint_url)
    vault = open_vault(spec, endpoint_url=endpoint_url)
    found = vault.read_marker()
    if found is not None and (found.deployment, found.instance, found.name) != (deployment, spec.instance, spec.name):
        raise BadInput(
            f"{spec.location}/{spec.prefix} is vault {found.name} of instance {found.instance} in deployment "
            f"{found.deployment}; two must not delete in one place. Choose another prefix"
        )
    for above in vault.ancestor_markers():
        raise BadInput(
            f"{spec.location}/{spec.prefix} lies inside vault {above.name} of deployment {above.deployment}; "
            "dropping one would erase the other: use separate prefixes"
        )
    below = vault.descendant_marker()
    if below is not None:
        raise BadInput(
            f"inside {spec.location}/{spec.prefix} lies another vault ({below}); dropping one would erase the other: "
            "use separate prefixes"
        )
    probe = vault.probe()
    if lack := lacks(spec, probe):
        raise BadInput(f"{spec.location}/{spec.prefix} cannot be such a vault: {lack}")
    spec = spec.model_copy(update={"uuid": found.vault_uuid if found else uuid.uuid4().hex, "probe": probe})
    if found is None:
        vault.write_marker(Marker(vault_uuid=spec.uuid, deployment=deployment, instance=spec.instance, name=spec.name))
    registry.insert_vault(spec, endpoint_url)
    return spec
