"""A stack in use leaves no secret in logs, tables, histories, command lines and output, and no file for other users."""

import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from sexton.database import schema
from sexton.database.engine import Database, first_line
from sexton.database.tables import METADATA
from sexton.runtime.embedded.child import Child
from sexton.runtime.embedded.ports import free_port, write_atomically
from sexton.runtime.embedded.stack import Stack
from sexton.runtime.spark.server import ConnectServer, properties
from tests.servers.kafka import Broker
from tests.servers.postgres import Cluster, live_url, new_database
from tests.servers.s3 import client_of
from tests.support.eventually import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

DEPLOYMENT = "test-secrets"
KAFKA = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass
class Used:
    """A stack that was used: what it printed, which secrets it was given, and the URL of its database."""

    stack: Stack
    url: str
    secrets: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    command_lines: str = ""

    def sexton(self, *words: str, typed: str = "", silent: bool = False) -> str:
        """Run a command; ``silent``: its output must contain a secret, so it is not searched."""
        done = subprocess.run(
            [sys.executable, "-m", "sexton", *words],
            env=os.environ | self.stack.environment() | self.variables(),
            input=typed,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.printed += done.stderr + ("" if silent else done.stdout)
        return done.stdout.strip()

    def variables(self) -> dict[str, str]:
        names = {"SEXTON_DATABASE_URL": self.url, "SEXTON_DEPLOYMENT": DEPLOYMENT, "SEXTON_HOME": str(self.stack.home)}
        live = live_url(self.url).replace(self.secrets["database password"], self.secrets["live password"])
        names["SEXTON_LIVE_DATABASE_URL"] = live
        return names | self.topics | {"SEXTON_SPARK__SPARK_THRESHOLD_OBJECTS": "2"}

    def note_command_lines(self) -> None:
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.command_lines += file.read_bytes().decode(errors="replace") + "\n"
            except OSError:
                continue  # it has ended


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, postgres: Cluster, kafka_jars: Path) -> Iterator[Used]:
    """Use a stack over PostgreSQL as operators, a job and workers do, under an umask that hides nothing."""
    umask = os.umask(0)
    home = tmp_path_factory.mktemp("used") / "deep" / "home"
    database_password, s3_key = f"db-{secrets.token_hex(16)}", secrets.token_hex(20)
    url = postgres.create_database().replace("postgres@", f"postgres:{database_password}@")
    stack = Stack(home)
    passwords = {"database password": database_password, "live password": f"live-{secrets.token_hex(16)}"}
    used = Used(stack, url, passwords | {"S3 key": s3_key})
    broker, used.topics, used.secrets["Kafka password"] = kafka_with_logins(tmp_path_factory.mktemp("kafka"))
    with pytest.MonkeyPatch.context() as m:
        m.setenv("SEXTON_DEPLOYMENT", DEPLOYMENT)
        try:
            stack.home.parent.mkdir(mode=0o700, parents=True)
            stack.home.mkdir(mode=0o700)
            write_atomically(
                home / "env", f"AWS_ACCESS_KEY_ID={secrets.token_hex(8)}\nAWS_SECRET_ACCESS_KEY={s3_key}\n"
            )
            stack.start(print)
            schema.init(url, DEPLOYMENT)
            broker.format()
            broker.start()
            stack.start_worker(settings=used.variables())
            stack.launch_worker("worker-spark", used.variables(), ("--role", "spark"))
            stack.await_worker("worker-spark")
            m.setenv("SEXTON_DATABASE_URL", url)
            _use(used)
            yield used
        finally:
            broker.kill()
            stack.stop()
            os.umask(umask)


def _use(used: Used) -> None:
    """Register a vault, run a round and a check, log in over the API, and be refused there."""
    bucket, s3 = f"b-{secrets.token_hex(4)}", client_of(used.stack.environment())
    s3.create_bucket(Bucket=bucket)
    for name in "abc":
        s3.put_object(Bucket=bucket, Key=f"data/{name}.dat", Body=b"x")
    rows = "SELECT 'table' AS kind, 'a' AS id, 'cold' AS vault, 'data/a.dat' AS key, 1 AS bytes"
    with create_engine(used.url).begin() as c:
        c.execute(text(f"CREATE VIEW public.shop_live AS {rows}"))
    used.sexton("instance", "add", "shop", "--live-view", "public.shop_live")
    used.sexton("vault", "add", "shop", "cold", "--s3", bucket)
    used.sexton("enable", "shop")
    token = used.sexton("token", "create", "--scope", "operate@shop", silent=True)
    used.secrets["token"] = token.split("_", 2)[2]
    used.sexton("round", "run", "shop")
    used.sexton("check", "run", "shop")
    _use_topic(used)
    _use_api(used, token)
    used.note_command_lines()
    for words in ("settings show", "settings show --json", "doctor", "log --json", "token list --json", "status"):
        used.sexton(*words.split())


def _use_topic(used: Used) -> None:
    """Purge a topic, and ask for it with a wrong password, too."""
    admin = AdminClient({name: used.topics[f"SEXTON_WAL__KAFKA__{name.replace('.', '_').upper()}"] for name in KAFKA})
    admin.create_topics([NewTopic("entries", 1, 1)])["entries"].result(30)
    used.sexton("wal", "enable", "entries", "--instance", "shop")
    used.sexton("wal", "explain", "entries")
    used.sexton("wal", "purge", "entries")
    right, wrong = used.topics, f"wrong-{secrets.token_hex(16)}"
    used.secrets["wrong Kafka password"] = wrong
    used.topics = right | {"SEXTON_WAL__KAFKA__SASL_PASSWORD": wrong}
    used.sexton("wal", "explain", "entries")
    used.topics = right


def kafka_with_logins(home: Path) -> tuple[Broker, dict[str, str], str]:
    """Return a broker that asks for a password, the settings of its clients, and the password."""
    password = f"kafka-{secrets.token_hex(16)}"
    login = f'{PLAIN} required username="sexton" password="{password}" user_sexton="{password}";'
    options = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": login,
    }
    broker = Broker(home, 0, [(free_port(), free_port())], **options)
    values = (f"127.0.0.1:{broker.port}", "SASL_PLAINTEXT", "PLAIN", "sexton", password)
    names = (f"SEXTON_WAL__KAFKA__{name.replace('.', '_').upper()}" for name in KAFKA)
    return broker, dict(zip(names, values, strict=True)), password


def _use_api(used: Used, token: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    variables = os.environ | used.stack.environment() | used.variables() | {"SEXTON_API__LISTEN": address}
    api = Child("api", [sys.executable, "-m", "sexton", "api"], used.stack.home, variables)
    used.stack.children["api"] = api
    api.start(lambda: any("is listening" in line for line in api.tail(50)), PATIENCE_SECONDS)
    with httpx.Client(base_url=f"http://{address}") as http:
        headers = {"Authorization": f"Bearer {token}"}
        used.printed += http.post("/v1/instances/shop/plans", headers=headers).text
        used.printed += http.post("/v1/stop", json={"reason": "x", "everything": True}, headers=headers).text
        used.printed += http.get(f"/v1/{token}", headers={"Authorization": f"Bearer {token}x"}).text
        used.printed += http.get(f"/v1/why?key={token}&instance=shop", headers={"Authorization": token}).text


def found(used: Used, written: str) -> list[str]:
    return [name for name, value in used.secrets.items() if value in written]


def test_the_stack_was_used(used: Used) -> None:
    assert len(used.secrets) == 6
    assert min(map(len, used.secrets.values())) >= 32, "a shorter text is found by chance"
    assert "round 1 of shop: SUCCEEDED" in used.printed
    assert "compared on Spark" in used.printed
    assert "postgresql+psycopg://postgres:***@127.0.0.1" in used.printed


def test_no_secret_is_in_a_file_of_the_stack(used: Used) -> None:
    files = [f for f in used.stack.home.rglob("*") if f.is_file() and f != used.stack.home / "env"]
    places = {str(file): found(used, file.read_bytes().decode(errors="replace")) for file in files}

    assert {place: names for place, names in places.items() if names} == {}
    assert {"worker.log", "api.log", "temporal.log"} <= {file.name for file in files}


def test_no_secret_is_in_the_database(used: Used) -> None:
    db = Database.open(used.url)
    with db.read() as c:
        rows = "\n".join(str(c.execute(table.select()).all()) for table in METADATA.sorted_tables)
    db.close()

    assert "operate@shop" in rows
    assert found(used, rows) == []


def test_no_secret_is_printed_or_on_a_command_line(used: Used) -> None:
    assert "sexton" in used.command_lines
    assert found(used, used.printed) == []
    assert found(used, used.command_lines) == []


def test_every_file_of_the_stack_is_private(used: Used) -> None:
    modes = {}
    # SeaweedFS sets the modes of some of its files itself; their directory is private. As root the home may be searched
    # by PostgreSQL's user.
    assert used.stack.home.stat().st_mode & 0o067 == 0
    for path in (p for p in used.stack.home.rglob("*") if p.suffix != ".vif"):
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode) and stat.S_IMODE(status.st_mode) & 0o077:
            modes[str(path.relative_to(used.stack.home))] = oct(stat.S_IMODE(status.st_mode))

    assert modes == {}


def test_options_of_spark_are_in_a_private_file(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        server = ConnectServer(tmp_path / "home", "local[1]", {"spark.hadoop.fs.s3a.secret.key": "hush=hush: #1"})
    finally:
        os.umask(umask)
    [file] = (tmp_path / "home" / "spark").glob("server-*/spark.conf")

    assert "hush" not in repr(vars(server.child))
    assert "spark.hadoop.fs.s3a.secret.key=hush\\u003dhush\\u003a\\u0020\\u00231\n" in file.read_text()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (*file.parents[:3], file)] == [0o700, 0o700, 0o700, 0o600]
    assert properties({"a": "é\n"}) == "a=\\u00e9\\u000a\n"


def test_an_error_of_the_database_shows_no_parameter(tmp_path: Path) -> None:
    db = Database.open(new_database())
    row = {"id": "0123456789ab", "scope": "read", "digest": "hush-hush", "created_at": 1, "created_by": "ada"}
    with pytest.raises(DBAPIError) as refused, db.write() as c:
        c.execute(db.t.token.insert().values(**row, expires_at=2))
    db.close()

    assert "violates check constraint" in first_line(refused.value)
    assert "hush" not in first_line(refused.value)
