"""The kinds of vaults: what differs between stores, where a vault is, and which object a name means.

A listing shows keys exactly, as bytes. Names come from people and from owners' records, as ``VAULT/KEY`` or as a URL,
which can spell the same object in several ways.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from sexton.kernel.errors import BadInput, SextonError
from sexton.kernel.trust import STRICT, Trust, is_loopback
from sexton.storage.model import VaultSpec
from sexton.storage.policy import nested
from sexton.storage.port import Vault

_AWS_HOST = re.compile(r"s3[a-z0-9.-]*\.amazonaws\.com")
S3_SCHEMES = ("s3", "s3a", "s3n")


class VaultKind(NamedTuple):
    """What is different in one kind of store."""

    open: Callable[[VaultSpec, str, Trust], Vault]
    """Returns the vault, without a request. Arguments: its row, the settings' S3 endpoint, trust of connections."""
    check: Callable[[VaultSpec], VaultSpec]
    """Returns a new vault's row with one spelling of its location; raises ``BadInput``."""
    place: Callable[[VaultSpec, str], str]
    """Returns where it is, the same for all spellings; two vaults overlap if one place begins with the other."""
    url_roots: Callable[[VaultSpec], tuple[str, ...]]
    """Returns the URLs of its root: the URL of an object is one of them, followed by its key."""
    has_pace: bool
    """Whether the store limits its requests, so that a pace must be learnt."""


def _open_s3(spec: VaultSpec, endpoint_url: str, trust: Trust) -> Vault:
    from sexton.storage.s3.vault import S3Vault

    return S3Vault(spec, endpoint_url, trust)


def _open_local(spec: VaultSpec, _endpoint_url: str, _trust: Trust) -> Vault:
    from sexton.storage.local.vault import LocalVault

    return LocalVault(spec)


def _check_local(spec: VaultSpec) -> VaultSpec:
    if spec.conditional or spec.versions != "keep":
        raise BadInput("a directory has no versions and no ETags: leave --versions and --conditional out")
    location = str(Path(spec.location).resolve())
    if location == "/":
        raise BadInput("the whole file system is no vault; name a directory (is a variable empty?)")
    return spec.model_copy(update={"location": location})


def _local_root(spec: VaultSpec) -> str:
    return f"{spec.location.rstrip('/')}/{spec.prefix}"


VAULT_KINDS: Mapping[str, VaultKind] = {
    "s3": VaultKind(
        open=_open_s3,
        check=lambda spec: spec,
        place=lambda spec, url: f"{canonical_endpoint(spec.endpoint or url) or 'aws'}/{spec.location}/{spec.prefix}",
        url_roots=lambda spec: tuple(f"{scheme}://{spec.location}/{spec.prefix}" for scheme in S3_SCHEMES),
        has_pace=True,
    ),
    "local": VaultKind(
        open=_open_local,
        check=_check_local,
        place=lambda spec, _endpoint_url: f"file:{_local_root(spec)}",
        url_roots=lambda spec: (f"file://{_local_root(spec)}", f"file://localhost{_local_root(spec)}"),
        has_pace=False,
    ),
}
"""By ``VaultSpec.kind``."""


def open_vault(spec: VaultSpec, *, endpoint_url: str, trust: Trust = STRICT) -> Vault:
    """Return the vault that a row describes, unproved and without a request.

    Args:
        spec: the row.
        endpoint_url: the settings' S3 endpoint, used where the row names none; empty for AWS.
        trust: of connections to an S3 service.

    Raises:
        BadInput: a local vault's location is not an absolute path.
    """
    return VAULT_KINDS[spec.kind].open(spec, endpoint_url, trust)


def vault_place(spec: VaultSpec, endpoint_url: str) -> str:
    """Return the place of a whole vault; ``endpoint_url`` applies where its row names none.

    Raises:
        BadInput: the port of its endpoint is not a number.
    """
    return VAULT_KINDS[spec.kind].place(spec, endpoint_url)


def overlaps(a: VaultSpec, b: VaultSpec, endpoint_url: str) -> bool:
    """Tell whether an object could be in both vaults.

    Args:
        a: one vault; a ``local`` one with its canonical absolute path (symbolic links resolved by the caller).
        b: the other one.
        endpoint_url: the endpoint of a vault that names none; empty for AWS.
    """
    return nested(vault_place(a, endpoint_url), vault_place(b, endpoint_url))


def canonical_endpoint(url: str) -> str:
    """Return one spelling per store: host, port unless it is the scheme's default, path; empty for AWS.

    The scheme is dropped: a host counts as the same store over http and https, because refusing two separate vaults
    costs less than accepting two that are the same.

    Raises:
        BadInput: the port is not a number.
    """
    if not url:
        return ""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    try:
        number, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError as error:
        raise BadInput(f"the port of endpoint {url!r} is not valid; use a number up to 65535") from error
    if _AWS_HOST.fullmatch(host):
        return ""
    if is_loopback(host):
        host = "127.0.0.1"
    default_port = {"http": 80, "https": 443}.get(parts.scheme)
    port = "" if number in (None, default_port) else f":{number}"
    return f"{host}{port}{parts.path.rstrip('/')}"


class NotInAnyVault(SextonError):
    """A name is in no vault of the instance, or does not name an object."""


def resolve(name: str, vaults: Mapping[str, VaultSpec]) -> tuple[str, str]:
    """Return vault and key of a name: ``VAULT/KEY``, or a URL of a vault's store. ``%`` is a part of the key.

    A leading ``/`` of the key is dropped. The object need not exist.

    Args:
        name: as a person or an owner wrote it.
        vaults: the vaults of the instance by name.

    Raises:
        NotInAnyVault: the name is in no vault of the instance.
    """
    if "://" not in name:
        vault, slash, key = name.partition("/")
        if vault not in vaults or not slash:
            known = ", ".join(sorted(vaults))
            raise NotInAnyVault(f"{name!r} names no vault of the instance; write VAULT/KEY; vaults: {known}")
        return vault, key.lstrip("/")
    # A URL is not parsed: '#', '?' and '%' are parts of a key.
    containing = [(root, v.name) for v in vaults.values() for root in url_roots(v) if name.startswith(root)]
    if containing:
        root, vault = max(containing, key=lambda found: len(found[0]))  # the innermost where one contains another
        return vault, name.removeprefix(root).lstrip("/")
    scheme = name.partition("://")[0]
    if scheme not in (*S3_SCHEMES, "file"):
        raise NotInAnyVault(f"{name!r}: write VAULT/KEY, s3://BUCKET/KEY or file:///PATH")
    if scheme == "file" and not name.startswith(("file:///", "file://localhost/")):
        raise NotInAnyVault(f"{name!r}: write file:///PATH, with a path of this machine")
    raise NotInAnyVault(f"{name!r} is in no vault of the instance; see: sexton vault list")


def url_roots(spec: VaultSpec) -> tuple[str, ...]:
    """Return the URLs of a vault's root: the URL of an object is one of them, followed by its key."""
    return VAULT_KINDS[spec.kind].url_roots(spec)
