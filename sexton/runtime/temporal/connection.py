"""Where Temporal is and how to connect to it, and what a failed attempt means."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.envconfig import ClientConfig
from temporalio.service import TLSConfig

from config.sections import TemporalSection
from sexton.kernel.errors import BadInput

_PAIR_FAULTS = ("PrivateKeyParseError", "CertificateParseError", "KeyMismatch", "Must have both client cert")
"""Words of the SDK about a client certificate and key."""
_DEFAULT_NAMESPACE = "default"


class Connection(NamedTuple):
    """A Temporal service and what it is shown; ``tls`` False: the connection is not encrypted."""

    address: str
    namespace: str
    tls: TLSConfig | bool
    api_key: str | None = None
    headers: Mapping[str, str] = {}


def connection(section: TemporalSection) -> Connection:
    """Return the connection that the settings describe, or the profile of Temporal's own that they name.

    Raises:
        BadInput: a file cannot be read, there is no such profile, or it is invalid or would send a key in clear text.
    """
    if section.profile:
        return _of_profile(section.profile)
    tls: TLSConfig | bool = False
    if section.uses_tls:
        tls = TLSConfig(
            server_root_ca_cert=_pem("tls_ca", section.tls_ca),
            domain=section.server_name or None,
            client_cert=_pem("tls_cert", section.tls_cert),
            client_private_key=_pem("tls_key", section.tls_key),
        )
    return Connection(section.address, section.namespace, tls, section.api_key or None)


def _of_profile(name: str) -> Connection:
    try:
        # Strict: a misspelled name of a setting would be left out, and the connection less secure than the file says.
        config: Mapping[str, Any] = ClientConfig.load_client_connect_config(name, config_file_strict=True)
    except (RuntimeError, OSError, ValueError) as e:
        reason = str(e).partition("\n")[0]  # the other lines quote the file, secrets included
        raise BadInput(
            f"temporal.profile = {name} cannot be used: {reason}; correct the name, or the file of profiles that "
            "TEMPORAL_CONFIG_FILE names (without it: temporal.toml, in the user's configuration)"
        ) from None
    if "target_host" not in config:
        raise BadInput(f"temporal.profile = {name} names no address; add it to Temporal's configuration")
    to = Connection(
        address=config["target_host"],
        namespace=config.get("namespace", _DEFAULT_NAMESPACE),
        tls=config.get("tls", False),
        api_key=config.get("api_key"),
        headers=config.get("rpc_metadata", {}),
    )
    if not to.tls and (to.api_key or "authorization" in {header.lower() for header in to.headers}):
        raise BadInput(f"temporal.profile = {name} would send a secret without TLS; enable tls in the profile")
    return to


def _pem(setting: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        content = Path(path).read_bytes()
    except OSError as e:
        raise BadInput(f"temporal.{setting} = {path} cannot be read: {e.strerror}") from e
    if b"-----BEGIN " not in content:
        raise BadInput(f"temporal.{setting} = {path} is no file in PEM; convert it")
    return content


def explain_failure(to: Connection, error: str) -> str:
    """Return a sentence that says why no connection was made, and what to do.

    Args:
        to: the connection.
        error: the SDK's message. Its words for the causes were seen with the SDK 1.35.
    """
    where = f"Temporal at {to.address}"
    has_certificate = isinstance(to.tls, TLSConfig) and to.tls.client_cert is not None
    if "Unauthenticated" in error or "PermissionDenied" in error:
        refused = "the API key; set a valid one" if to.api_key else "a client without an API key; set one"
        return f"{where} refuses {refused}: SEXTON_TEMPORAL__API_KEY"
    if "InvalidCertificate" in error:
        return (
            f"the certificate of {where} is not accepted; set temporal.tls_ca to the certificate of its authority, and "
            "temporal.server_name to the name in the certificate"
        )
    if any(cause in error for cause in _PAIR_FAULTS):
        return (
            "temporal.tls_cert and temporal.tls_key, or those of the profile, are no valid certificate and its key; "
            "replace them"
        )
    if "InvalidContentType" in error or "InvalidMessage" in error:
        return f"{where} does not use TLS; remove temporal.tls, tls_ca, tls_cert, tls_key and api_key"
    if "hyper::Error" in error:  # the connection was made, and ended at the first call
        if not to.tls:
            return f"{where} closed the connection, probably because it requires TLS; set temporal.tls"
        refusal = "refuses the client certificate; replace" if has_certificate else "demands a client certificate; set"
        return f"{where} probably {refusal} temporal.tls_cert and temporal.tls_key"
    return f"cannot reach {where}; start it (here: sexton up), or set SEXTON_TEMPORAL__ADDRESS"
