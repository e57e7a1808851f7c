"""Register a vault: check it, write its marker, then its row. Repeating the command after a crash completes it."""

import uuid
from pathlib import Path

from sexton.kernel.errors import BadInput
from sexton.kernel.trust import STRICT, Trust
from sexton.operators.registry.store import Registry
from sexton.storage.model import Marker, VaultSpec
from sexton.storage.policy import unsupported_options
from sexton.storage.port import Vault
from sexton.storage.vaults import open_vault


def add_vault(
    registry: Registry,
    spec: VaultSpec,
    deployment: str,
    endpoint_url: str,
    *,
    take_over: bool = False,
    trust: Trust = STRICT,
) -> VaultSpec:
    """Register a place as a vault of this deployment, and return it as registered.

    The marker is written before the row: a row without a marker is a fault, but a marker without a row is found again
    when the command is repeated.

    ``take_over``: give the marker of an unregistered vault of this deployment to the new vault. ``trust``: of
    connections to an S3 service.

    Raises:
        BadInput: the vault overlaps another one, its name is taken, the place is another vault already, or its store
            lacks a feature that the vault's options need.
        VaultFault: the place does not exist or cannot be reached.
    """
    spec = _checked_spec(spec).model_copy(update={"deployment": deployment})
    registry.check_new_vault(spec, endpoint_url)
    vault = open_vault(spec, endpoint_url=endpoint_url, trust=trust)
    marker = vault.read_marker()
    if marker is not None:
        _check_marker(registry, spec, marker, take_over=take_over)
    _check_no_nested_vault(spec, vault)
    probe = vault.probe()
    missing_feature = unsupported_options(spec, probe)
    if missing_feature:
        raise BadInput(f"{spec.location}/{spec.prefix} cannot be such a vault: {missing_feature}")
    spec = spec.model_copy(update={"uuid": marker.vault_uuid if marker else uuid.uuid4().hex, "probe": probe})
    if marker is None:
        vault.write_marker(Marker(vault_uuid=spec.uuid, deployment=deployment, instance=spec.instance, name=spec.name))
    elif take_over:  # its round stays: proofs refuse a vault in which a round deleted that this database does not know
        vault.replace_marker(marker.model_copy(update={"instance": spec.instance, "name": spec.name}))
    registry.insert_vault(spec, endpoint_url)
    return spec


def _checked_spec(spec: VaultSpec) -> VaultSpec:
    """Return the specification, with the absolute path of a directory."""
    if spec.kind != "local":
        return spec
    if spec.conditional or spec.versions != "keep":
        raise BadInput("a directory has no versions and no ETags: leave --versions and --conditional out")
    location = str(Path(spec.location).resolve())
    if location == "/":
        raise BadInput("the whole file system is no vault; name a directory (is a variable empty?)")
    return spec.model_copy(update={"location": location})


def _check_marker(registry: Registry, spec: VaultSpec, marker: Marker, *, take_over: bool) -> None:
    """Raise ``BadInput`` if the place already is another vault that must not be taken over."""
    if (marker.deployment, marker.instance, marker.name) == (spec.deployment, spec.instance, spec.name):
        return
    occupied = (
        f"{spec.location}/{spec.prefix} is vault {marker.name} of instance {marker.instance} in deployment "
        f"{marker.deployment}"
    )
    if marker.deployment != spec.deployment:
        raise BadInput(f"{occupied}; two must not delete in one place. Choose another prefix")
    if any(marker.vault_uuid == vault.uuid for vault in registry.vaults()):
        raise BadInput(f"{occupied}, which is registered; two must not delete in one place. Choose another prefix")
    if not take_over:
        raise BadInput(
            f"{occupied}, but this database has no such vault. If no other database of the deployment uses it, add "
            "--take-over; otherwise choose another prefix"
        )


def _check_no_nested_vault(spec: VaultSpec, vault: Vault) -> None:
    """Raise ``BadInput`` if the place lies inside another vault, or another vault inside the place."""
    for outer in vault.ancestor_markers():
        raise BadInput(
            f"{spec.location}/{spec.prefix} lies inside vault {outer.name} of deployment {outer.deployment}; "
            "dropping one would erase the other: use separate prefixes"
        )
    inner = vault.descendant_marker()
    if inner is not None:
        raise BadInput(
            f"inside {spec.location}/{spec.prefix} lies another vault ({inner}); dropping one would erase the other: "
            "use separate prefixes"
        )
