"""Read settings from their sources: one ``Layer`` for each, which also records where each key was set.

The order of precedence: environment, ``.sexton/env`` (written by ``sexton up``), one TOML file, the model's defaults.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sexton.kernel.errors import SextonError

PREFIX = "SEXTON_"
CONTROL_NAMES = frozenset({"SEXTON_HOME", "SEXTON_CONFIG", "SEXTON_API_URL", "SEXTON_TOKEN"}) | {
    "SEXTON_NODE_TOKEN",
    "SEXTON_NODE_TOKEN_FILE",
}
"""Variables that locate the settings, or that ``sexton.client`` and backends read; they are no settings themselves."""

OWN_WORLD = frozenset({"SEXTON_DATABASE_URL", "SEXTON_DEPLOYMENT"})
"""Where the environment sets one of these, ``.sexton/env`` is not read."""

PACKAGED = Path(__file__).with_name("sexton.toml")

_SERVICE_LINK = re.compile(
    r"SEXTON(_[A-Z0-9]+)*?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)"
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://\S+")
_PASSWORD = re.compile(r"(://[^:/@\s]*:).*@")
_PARAMETER = re.compile(r"([?&;])([^=?&;\s]+)=([^&;\s]*)")
_SHOWN_PARAMETERS = frozenset(
    {"host", "port", "dbname", "user", "user_id", "session_id", "use_ssl", "application_name", "connect_timeout"}
    | {"sslmode", "sslcert", "sslkey", "sslrootcert", "target_session_attrs", "mode", "cache", "uri"}
)
"""Parameters of URLs that are no secrets; the values of all others are masked."""


class SettingsError(SextonError):
    """A setting is unknown, unsafe or missing; the message names its key, value and bound, and the remedy."""


@dataclass
class Layer:
    """The settings of one source as a nested dict, and for each dotted key the name of the source."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def put(self, path: list[str], value: Any, source: str) -> None:
        """Store one value under its dotted path; raise ``SettingsError`` where the path leads through a plain value."""
        section = self.values
        for name in path[:-1]:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise SettingsError(f"{source}: {name!r} has both a value and keys of its own; remove one of them.")
        section[path[-1]] = value
        self.sources[".".join(path)] = source


def home() -> Path:
    """Return the directory of the embedded stack: SEXTON_HOME, else ``.sexton`` in the current directory."""
    return Path(os.environ.get("SEXTON_HOME") or ".sexton")


def masked(text: str) -> str:
    """Return the text with secrets of URLs masked: passwords (all up to the last ``@``), and unknown parameters."""
    return _PARAMETER.sub(
        lambda m: m[0] if m[2].lower() in _SHOWN_PARAMETERS else f"{m[1]}{m[2]}=***", _PASSWORD.sub(r"\1***@", text)
    )


def is_service_link(name: str, value: str) -> bool:
    """Return whether Kubernetes set this variable for a service whose name begins with ``sexton``.

    It sets them in each pod of the namespace: SEXTON_SERVICE_HOST, SEXTON_API_PORT=tcp://10.0.0.1:80 and others. Of
    names that only end with _PORT, the value decides: a mistyped setting must still be refused.
    """
    if _SERVICE_LINK.fullmatch(name):
        return True
    return "__" not in name and name.endswith("_PORT") and _SERVICE_URL.fullmatch(value) is not None


def reads_home() -> bool:
    """Return whether this process reads ``.sexton/env``."""
    return OWN_WORLD.isdisjoint(os.environ)


def home_env(directory: Path | None = None) -> dict[str, str]:
    """Return the KEY=VALUE lines of a home's ``env`` file, by default this process' own; empty without one.

    They apply together or not at all: where the environment names a database or a deployment, none of them applies.
    Otherwise a real database could get the demo's id, whose clock may be moved, or the demo's store.
    """
    if directory is None and not reads_home():
        return {}
    file = (directory or home()) / "env"
    if not file.is_file():
        return {}
    variables: dict[str, str] = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.startswith((PREFIX, "AWS_")):
            raise SettingsError(f"{file} line {number} is not a SEXTON_…= or AWS_…= line; remove it.")
        variables[name.strip()] = value.strip()
    return variables


def load_home_env() -> None:
    """Set the S3 keys of ``.sexton/env`` in this process' environment, so that boto3 reaches the embedded store.

    Keys belong to an endpoint: where the environment names an endpoint, its own keys stay. Where the embedded endpoint
    is used, its keys replace a developer's, as S3 would refuse a pair of both.
    """
    if "SEXTON_S3__ENDPOINT_URL" in os.environ:
        return
    keys = {name: value for name, value in home_env().items() if name.startswith("AWS_")}
    if "AWS_ACCESS_KEY_ID" in keys:
        for other in ("AWS_SESSION_TOKEN", "AWS_PROFILE"):
            os.environ.pop(other, None)
    os.environ.update(keys)


def layers() -> list[Layer]:
    """Return the layers of all sources, the one with the highest precedence first."""
    return [_variables(os.environ, "environment {}"), _variables(home_env(), str(home() / "env")), _toml()]


def _variables(names: Mapping[str, str], source: str) -> Layer:
    layer = Layer()
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in CONTROL_NAMES and not is_service_link(name, names[name]):
            layer.put(name.removeprefix(PREFIX).lower().split("__"), names[name], source.format(name))
    return layer


def _toml() -> Layer:
    config_variable = os.environ.get("SEXTON_CONFIG")
    local = Path("config") / "sexton.toml"
    if config_variable:
        file, source = Path(config_variable), config_variable
    elif local.is_file():
        file, source = local, str(local)
    else:
        file, source = PACKAGED, "packaged sexton.toml"
    try:
        parsed = tomllib.loads(file.read_text("utf-8"))
    except OSError as e:
        raise SettingsError(f"cannot read {file} ({e.strerror}); correct SEXTON_CONFIG or unset it.") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise SettingsError(f"{file} is not TOML: {e}; correct that line.") from e
    layer = Layer()
    for path, value in _leaves(parsed, []):
        layer.put(path, value, source)
    return layer


def _leaves(node: dict[str, Any], path: list[str]) -> Iterator[tuple[list[str], Any]]:
    for name, value in node.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, [*path, name])
        else:
            yield [*path, name], value
