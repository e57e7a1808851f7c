"""The kinds of vaults: what differs between stores, where a vault is, and which object a name means.

A listing shows keys exactly, as bytes. Names come from people and from owners' records, as ``VAULT/KEY`` or as a URL,
which can spell the same object in several ways.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from sexton.kernel.errors import BadInput, SextonError, WrongUsage
from sexton.kernel.trust import STRICT, Trust, is_loopback
from sexton.storage.model import VaultSpec
from sexton.storage.policy import nested
from sexton.storage.port import Vault

_AWS_HOST = re.compile(r"s3[a-z0-9.-]*\.amazonaws\.com")


class VaultKind(NamedTuple):
    """What is different in one kind of store."""

    open: Callable[[VaultSpec, str, Trust], Vault]
    """Returns the vault, without a request. Arguments: its row, the settings' S3 endpoint, trust of connections."""
    split: Callable[[str], tuple[str, str]]
    """Returns location and prefix of what follows ``://`` in the URL of a new vault; raises ``WrongUsage``."""
    check: Callable[[VaultSpec], VaultSpec]
    """Returns a new vault's row with one spelling of its location; raises ``BadInput``."""
    store: Callable[[VaultSpec, str], str]
    """Returns the beginning of its place: which store it is in, the same for all spellings."""
    url_starts: tuple[str, ...]
    """How URLs of its objects begin, before bucket or directory; the first is the usual one."""
    is_service: bool
    """Whether the store limits requests, so that a pace must be learnt, and its keys to ``MAX_KEY_BYTES``."""


def _open_s3(spec: VaultSpec, endpoint_url: str, trust: Trust) -> Vault:
    from sexton.storage.s3.vault import S3Vault

    return S3Vault(spec, endpoint_url, trust)


def _open_local(spec: VaultSpec, _endpoint_url: str, _trust: Trust) -> Vault:
    from sexton.storage.local.vault import LocalVault

    return LocalVault(spec)


def _split_bucket(place: str) -> tuple[str, str]:
    bucket, slash, prefix = place.partition("/")
    prefix = prefix.strip("/")
    if not bucket or (slash and not prefix):
        missing = f"no prefix (is a variable empty?); for the whole bucket write {bucket}" if bucket else "no bucket"
        raise WrongUsage(f"{place!r} names {missing}")
    return bucket, f"{prefix}/" if prefix else ""


def _split_directory(place: str) -> tuple[str, str]:
    if not place.startswith("/"):
        raise WrongUsage(f"{place!r} is no absolute path; write file:///DIR")
    return place, ""


def _check_local(spec: VaultSpec) -> VaultSpec:
    if spec.endpoint or spec.region or spec.profile or spec.conditional or spec.versions != "keep" or spec.inventory:
        others = "--endpoint, --region, --profile, --inventory, --versions and --conditional"
        raise WrongUsage(f"{others} are not for a directory")
    location = str(Path(spec.location).resolve())
    if location == "/":
        raise WrongUsage("the whole file system is no vault; name a directory (is a variable empty?)")
    return spec.model_copy(update={"location": location})


VAULT_KINDS: Mapping[str, VaultKind] = {
    "s3": VaultKind(
        open=_open_s3,
        split=_split_bucket,
        check=lambda spec: spec,
        store=lambda spec, endpoint_url: f"{canonical_endpoint(spec.endpoint or endpoint_url) or 'aws'}/",
        url_starts=("s3://", "s3a://", "s3n://"),
        is_service=True,
    ),
    "local": VaultKind(
        open=_open_local,
        split=_split_directory,
        check=_check_local,
        store=lambda _spec, _endpoint_url: "file:",
        url_starts=("file://", "file://localhost"),
        is_service=False,
    ),
}
"""By ``VaultSpec.kind``."""


def kind_of(spec: VaultSpec) -> VaultKind:
    """Return the kind of a vault.

    Raises:
        BadInput: this version of Sexton does not know it.
    """
    if (kind := VAULT_KINDS.get(spec.kind)) is None:
        known = ", ".join(VAULT_KINDS)
        raise BadInput(f"vault {spec.name} is of kind {spec.kind!r}, and this version of Sexton knows only {known}")
    return kind


def read_place(url: str) -> tuple[str, str, str]:
    """Return kind, location and prefix of a new vault from the URL of its root. ``%`` is a part of the path.

    Raises:
        WrongUsage: no kind of vault has such a URL.
    """
    scheme, _, place = url.partition("://")
    for name, kind in VAULT_KINDS.items():
        if f"{scheme}://" in kind.url_starts:
            return name, *kind.split(place)
    known = ", ".join(kind.url_starts[0] for kind in VAULT_KINDS.values())
    raise WrongUsage(f"{url!r} is no URL of a vault; it begins with one of {known}")


def open_vault(spec: VaultSpec, *, endpoint_url: str, trust: Trust = STRICT) -> Vault:
    """Return the vault that a row describes, unproved and without a request.

    Args:
        spec: the row.
        endpoint_url: the settings' S3 endpoint, used where the row names none; empty for AWS.
        trust: of connections to an S3 service.

    Raises:
        BadInput: a local vault's location is not an absolute path, or this version does not know the kind.
    """
    return kind_of(spec).open(spec, endpoint_url, trust)


def vault_place(spec: VaultSpec, endpoint_url: str) -> str:
    """Return the place of a whole vault, the same for all spellings; ``endpoint_url`` applies where its row names none.

    Two vaults overlap if one place begins with the other.

    Raises:
        BadInput: the port of its endpoint is not a number.
    """
    return kind_of(spec).store(spec, endpoint_url) + _root(spec)


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
        raise WrongUsage(f"the port of endpoint {url!r} is not valid; use a number up to 65535") from error
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
    raise NotInAnyVault(
        f"{name!r} is in no vault of the instance; write VAULT/KEY, or a URL below a vault's root (sexton vault list)"
    )


def url_roots(spec: VaultSpec) -> tuple[str, ...]:
    """Return the URLs of a vault's root: the URL of an object is one of them, followed by its key."""
    return tuple(start + _root(spec) for start in kind_of(spec).url_starts)


def _root(spec: VaultSpec) -> str:
    return f"{spec.location.rstrip('/')}/{spec.prefix}"
