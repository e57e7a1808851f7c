"""Sexton works with a Temporal that demands client certificates or an API key, and says what is wrong with a login."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.conftest import Run
from tests.servers.certificate import Certificate, certificate
from tests.servers.forked import Forked
from tests.servers.temporal import DevServer
from tests.servers.temporal_gateway import TemporalGateway
from tests.support.rig import Rig, put
from tests.support.topics import make_topic

KEY = "key-0123456789"
LOGINS = ["certificate", "key", "profile"]


@pytest.fixture
def own(tmp_path: Path) -> Certificate:
    (tmp_path / "own").mkdir()
    return certificate(tmp_path / "own")


@pytest.fixture
def other(tmp_path: Path) -> Certificate:
    """Of another authority."""
    (tmp_path / "other").mkdir()
    return certificate(tmp_path / "other")


def login(how: str, address: str, own: Certificate) -> dict[str, str]:
    """Return the variables of a client with a certificate, a key, or a profile of Temporal's own with both."""
    if how == "profile":
        file = own.cert.with_name("temporal.toml")
        file.write_text(
            f'[profile.sexton]\naddress = "{address}"\napi_key = "{KEY}"\n[profile.sexton.tls]\n'
            f'server_ca_cert_path = "{own.authority}"\nclient_cert_path = "{own.cert}"\nclient_key_path = "{own.key}"\n'
        )
        return {"TEMPORAL_CONFIG_FILE": str(file), "SEXTON_TEMPORAL__PROFILE": "sexton"}
    variables = {"ADDRESS": address, "TLS_CA": str(own.authority)}
    if how == "key":
        variables["API_KEY"] = KEY
    else:
        variables |= {"TLS_CERT": str(own.cert), "TLS_KEY": str(own.key)}
    return {f"SEXTON_TEMPORAL__{name}": value for name, value in variables.items()}


class Secured(NamedTuple):
    """A Temporal that demands a login, and the variables of a client that has it."""

    gateway: TemporalGateway
    variables: dict[str, str]


@pytest.fixture
def secured(request: pytest.FixtureRequest, own: Certificate, temporal_server: DevServer) -> Iterator[Secured]:
    """A Temporal that demands what the parameter names."""
    clients = None if request.param == "key" else own.authority
    api_key = "" if request.param == "certificate" else KEY
    with TemporalGateway(temporal_server.address, own, clients, api_key) as gateway:
        yield Secured(gateway, login(request.param, gateway.address, own))


@pytest.fixture
def served(
    secured: Secured, environment: dict[str, str], shop: Rig, sexton: Run, tmp_path: Path
) -> Iterator[Callable[..., str]]:
    """A function that runs a command beside a worker, both with the login, and returns what it prints."""
    worker = Forked("worker", "sexton", ["worker", "run"], tmp_path, environment | secured.variables)
    worker.start(lambda: "is polling" in worker.log.read_text())

    def run(*words: str) -> str:
        ended = sexton(*words, COLUMNS="200", **secured.variables)
        assert KEY not in ended.stdout + ended.stderr
        return " ".join(ended.stdout.split())

    yield run
    assert worker.stop() == 0
    assert KEY not in worker.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("secured", LOGINS, indirect=True)
def test_a_round_a_check_and_a_purge_run_behind_a_login(
    secured: Secured, served: Callable[..., str], shop: Rig, tmp_path: Path
) -> None:
    shop.registry.enable("shop")
    shop.sql("CREATE VIEW public.sexton_live AS SELECT 'f' AS kind, 'b' AS id, 'disk' AS vault, 'b.dat' AS \"key\"")
    shop.registry.set_live_view("shop", "public.sexton_live")
    put(tmp_path / "v", "b.dat")
    make_topic(shop.db, "orders", 20, {"r1": 9})
    shop.all_stores.wal.purger.preview(["orders"])  # now the end of the log is known

    assert "round 1 of shop: SUCCEEDED" in served("round", "run", "shop")
    assert "check 1 of shop: WHOLE" in served("check", "run", "shop")
    assert "outcome: PURGED last purged entry id: 9 entries freed: 9 " in served("wal", "purge", "orders")
    assert f"{secured.gateway.address}, namespace default, TLS" in served("doctor")
    assert not (tmp_path / "v" / "data" / "a.dat").exists()
    assert secured.gateway.calls > 10


WRONG: list[Any] = [
    ("certificate", {"TLS_CERT": "", "TLS_KEY": ""}, "probably demands a client certificate; set temporal.tls_cert"),
    ("certificate", {"TLS_CERT": "other", "TLS_KEY": "other"}, "probably refuses the client certificate; replace"),
    ("certificate", {"TLS_CA": "other"}, "is not accepted; set temporal.tls_ca to the certificate of its authority"),
    ("certificate", {"TLS_CERT": "other"}, "are no valid certificate and its key"),
    ("certificate", {"TLS_CA": "/nowhere"}, "temporal.tls_ca = /nowhere cannot be read: No such file or directory"),
    ("certificate", {"TLS_KEY": ""}, "tls_cert and tls_key belong together; set both or none"),
    ("key", {"API_KEY": ""}, "refuses a client without an API key; set one: SEXTON_TEMPORAL__API_KEY"),
    ("key", {"API_KEY": "wrong-0123456789"}, "refuses the API key; set a valid one: SEXTON_TEMPORAL__API_KEY"),
    ("key", {"API_KEY": "", "TLS_CA": ""}, "closed the connection, probably because it requires TLS; set temporal.tls"),
]


@pytest.mark.parametrize(("secured", "wrong", "said"), WRONG, indirect=["secured"])
def test_a_wrong_login_is_one_sentence_with_a_way_out(
    secured: Secured, wrong: dict[str, str], said: str, other: Certificate, in_process: Run, shop: Rig
) -> None:
    others = {"TLS_CA": other.authority, "TLS_CERT": other.cert, "TLS_KEY": other.key}
    changed = {name: str(others[name]) if value == "other" else value for name, value in wrong.items()}
    variables = secured.variables | {f"SEXTON_TEMPORAL__{name}": value for name, value in changed.items()}

    ended = in_process("", "round", "run", "shop", **variables)
    findings = json.loads(in_process("", "doctor", "--json", **variables).stdout)["items"]

    assert said in " ".join(ended.stderr.split())
    assert (ended.returncode, "wrong-0123456789" in ended.stderr) == (1, False)
    assert [f for f in findings if f["about"] == "temporal" and "sexton up" in f["todo"]] == []
    assert "FAIL" in {f["state"] for f in findings if f["about"] in ("temporal", "settings")}


@pytest.mark.parametrize(
    "words",
    [
        ("schedules", "list"),
        ("schedules", "pause", "--reason", "drill"),
        ("round", "run", "shop"),
        ("round", "cancel", "shop"),
        ("check", "cancel", "shop"),
    ],
)
def test_no_command_takes_a_missing_namespace_for_idle(
    temporal_server: DevServer, in_process: Run, shop: Rig, words: tuple[str, ...]
) -> None:
    ended = in_process(temporal_server.address, *words, SEXTON_TEMPORAL__NAMESPACE="nowhere")

    assert ended.returncode == 1
    assert "has no namespace nowhere for this program" in ended.stderr
    assert "or set SEXTON_TEMPORAL__NAMESPACE" in ended.stderr.replace("\n", " ")


def test_tls_towards_a_plain_server_is_named(
    temporal_server: DevServer, own: Certificate, in_process: Run, shop: Rig
) -> None:
    ended = in_process("", "round", "run", "shop", **login("certificate", temporal_server.address, own))

    assert "does not use TLS; remove temporal.tls" in ended.stderr.replace("\n", " ")


@pytest.mark.parametrize("profile", ["nobody", "empty"])
def test_a_profile_that_names_no_server_is_refused(profile: str, tmp_path: Path, in_process: Run, shop: Rig) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text('[profile.empty]\nnamespace = "a"\n')
    variables = {"TEMPORAL_CONFIG_FILE": str(file), "SEXTON_TEMPORAL__PROFILE": profile}

    ended = in_process("127.0.0.1:1", "round", "run", "shop", **variables)

    assert f"temporal.profile = {profile} " in ended.stderr
    assert ended.returncode == 1
