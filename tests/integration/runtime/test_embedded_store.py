"""Of the embedded S3 server's ports only the S3 port obeys, and only whoever has its keys."""

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from sexton.runtime.embedded.ports import Ports
from sexton.runtime.embedded.s3 import S3Server
from tests.servers.s3 import client
from tests.support.eventually import eventually

BUCKET, KEY, BODY = "kept-bucket", "table/file", b"x" * 100_000
UNFINISHED = "unfinished"
HTTP_ATTACKS = (
    "/dir/status",
    "/dir/assign",
    f"/col/delete?collection={BUCKET}",
    "/vol/vacuum?garbageThreshold=0.0001",
    f"/buckets/{BUCKET}/{KEY}",
    f"/buckets/{BUCKET}?recursive=true",
    "/stats/disk",
)
"""Left out: the master's `/ui` and the volume's `/status`, which show sizes and directories to anybody."""
PORTS = 10
NAME_OF_BUCKET = b"\n" + bytes([len(BUCKET)]) + BUCKET.encode()
"""A protobuf message whose first field is the bucket's name."""
GRPC_ATTACKS = (
    ("/master_pb.Seaweed/VolumeList", b""),
    ("/master_pb.Seaweed/CollectionDelete", NAME_OF_BUCKET),
    ("/volume_server_pb.VolumeServer/DeleteCollection", NAME_OF_BUCKET),
    ("/filer_pb.SeaweedFiler/DeleteCollection", NAME_OF_BUCKET),
    ("/filer_pb.SeaweedFiler/GetFilerConfiguration", b""),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    home = tmp_path_factory.mktemp("store")
    server = S3Server(home, Ports(home), "access", "secret-secret")
    server.start()
    client(server.endpoint_url, "access", "secret-secret").create_bucket(Bucket=BUCKET)
    client(server.endpoint_url, "access", "secret-secret").put_object(Bucket=BUCKET, Key=KEY, Body=BODY)
    # Parts that S3 does not need begin to listen later.
    eventually(f"{PORTS} ports are open", lambda: len(open_ports(server)) >= PORTS)
    yield server
    server.child.stop()


def open_ports(server: S3Server) -> list[int]:
    """Return every TCP port that the server listens on."""
    sockets = {str(fd.readlink()) for fd in Path(f"/proc/{server.child.pid}/fd").iterdir()}
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{server.child.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                assert address == "0100007F", "it listens beyond loopback"
                ports.append(int(port, 16))
    return ports


def http_status(url: str, method: str) -> int | None:
    """Return the status of a request without credentials; None where the port does not speak HTTP."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, method=method), timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as e:
        return e.code
    except (OSError, ValueError):
        return None


def grpc_answers(port: int, method: str, message: bytes, credentials: grpc.ChannelCredentials | None) -> bool:
    """Return whether a method answered: with a result, or with an error of its own."""
    target = f"127.0.0.1:{port}"
    channel = grpc.secure_channel(target, credentials) if credentials else grpc.insecure_channel(target)
    with channel:
        try:
            channel.unary_unary(method)(message, timeout=5)
        except grpc.RpcError as e:
            return e.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED)
        return True


def body(server: S3Server) -> bytes:
    return client(server.endpoint_url, "access", "secret-secret").get_object(Bucket=BUCKET, Key=KEY)["Body"].read()


def certificate(server: S3Server) -> tuple[bytes, bytes]:
    run = server.child.log.parents[1] / "run"
    return (run / "s3-certificate.pem").read_bytes(), (run / "s3-key.pem").read_bytes()


def test_http_without_credentials_is_refused(store: S3Server) -> None:
    ports = open_ports(store)
    answers = {
        (port, method, path): http_status(f"http://127.0.0.1:{port}{path}", method)
        for port in ports
        for path in HTTP_ATTACKS
        for method in ("GET", "DELETE", "POST")
    }

    assert len(ports) == PORTS
    assert not {call: status for call, status in answers.items() if status not in (None, 400, 401, 403, 404, 405)}
    assert sum(status is not None for status in answers.values()) >= 4 * len(HTTP_ATTACKS) * 3
    assert body(store) == BODY


@pytest.mark.parametrize("tls", [False, True])
def test_grpc_without_the_certificate_is_refused(store: S3Server, tls: bool) -> None:
    credentials = grpc.ssl_channel_credentials(certificate(store)[0]) if tls else None
    obeyed = [
        (port, method)
        for port in open_ports(store)
        for method, message in GRPC_ATTACKS
        if grpc_answers(port, method, message, credentials)
    ]

    assert not obeyed
    assert body(store) == BODY


def test_grpc_with_the_certificate_answers(store: S3Server) -> None:
    """Otherwise a refusal would prove nothing."""
    root, key = certificate(store)
    credentials = grpc.ssl_channel_credentials(root, key, root)
    method, message = GRPC_ATTACKS[0]

    assert sum(grpc_answers(port, method, message, credentials) for port in open_ports(store)) == 1


def test_files_of_the_identity_are_private(store: S3Server) -> None:
    run = store.child.log.parents[1] / "run"

    assert {oct(file.stat().st_mode & 0o777) for file in run.glob("s3-*.pem")} == {"0o600"}


@pytest.mark.slow
def test_restart_gets_a_new_identity_and_keeps_objects(tmp_path: Path) -> None:
    first = S3Server(tmp_path, Ports(tmp_path), "access", "secret-secret")
    first.start()
    s3 = client(first.endpoint_url, "access", "secret-secret")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=BODY)
    old = certificate(first)
    first.child.stop()
    (tmp_path / "s3" / f"{UNFINISHED}_99.dat").touch()  # a volume that a kill left unfinished delays no start

    second = S3Server(tmp_path, Ports(tmp_path), "access", "secret-secret")
    second.start()
    try:
        s3 = client(second.endpoint_url, "access", "secret-secret")
        assert body(second) == BODY
        s3.put_object(Bucket=BUCKET, Key="new", Body=BODY)
        s3.create_bucket(Bucket=UNFINISHED)
    finally:
        second.child.stop()

    assert certificate(second) != old
    assert not re.search("secret-secret|WEED_", second.child.log.read_text())
