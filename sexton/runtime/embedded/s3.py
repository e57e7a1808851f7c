"""Run a real S3 server (SeaweedFS) on loopback. A restart over the same home keeps every object."""

import datetime as dt
import ipaddress
import os
import secrets
import subprocess
import time
import urllib.request
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sexton.kernel.process import make_directory
from sexton.runtime.embedded.child import Child, find_binary
from sexton.runtime.embedded.ports import Ports, write_atomically

REGISTER_SECONDS = 10.0
"""Volumes register within 5 s. One that a kill left unfinished never does, and holds no object: nobody waits for it."""
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Ignores any http_proxy of the environment: a proxy cannot reach loopback."""
_PARTS = ("master", "volume", "filer", "s3")
"""Each listens on two ports, HTTP and gRPC."""
_FIXED = (
    "-disableHttp",  # of master and filer, which the S3 port does not need
    "-admin.ui=false",
    "-webdav=false",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-master.telemetry=false",
    "-volume.max=5000",  # each bucket takes a volume, at first an empty file; the default, by free disk, is too few
    "-s3.autoCreateBucket=false",  # a mistyped bucket must be an error, not a new bucket
)


class S3Server:
    """One SeaweedFS over ``HOME/s3``, with the given access and secret key."""

    def __init__(self, home: Path, ports: Ports, access_key: str, secret_key: str) -> None:
        data = home.resolve() / "s3"
        make_directory(data)
        flags = [f"-dir={data}", f"-master.dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *_FIXED]
        port = {name: ports.take(f"s3 {name}") for name in (*_PARTS, "admin", *(f"{part} grpc" for part in _PARTS))}
        flags += [f"-{part}.port={port[part]}" for part in (*_PARTS, "admin")]
        # Not the admin's: its worker always dials the default, HTTP port + 10,000.
        flags += [f"-{part}.port.grpc={port[f'{part} grpc']}" for part in _PARTS]
        self._data, self._healthy_since = data, 0.0
        self._master = f"127.0.0.1:{port['master']}.{port['master grpc']}"
        self.endpoint_url = f"http://127.0.0.1:{port['s3']}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_", "WEED_"))}
        self._env = inherited | create_identity(home.resolve() / "run")
        keys = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
        self.child = Child("s3", [find_binary("weed"), "mini", *flags], home, self._env | keys)

    def start(self) -> float:
        """Start the server; return the seconds until it answers."""
        self._healthy_since = 0.0
        return self.child.start(self._answers)

    def _answers(self) -> bool:
        """Return whether it is healthy with every volume registered; until then (up to 5 s) requests get a 500."""
        try:
            with _DIRECT.open(f"{self.endpoint_url}/healthz", timeout=2):
                pass
        except OSError:
            return False
        self._healthy_since = self._healthy_since or time.monotonic()
        stored = len(list(self._data.glob("*.dat")))
        waited = time.monotonic() - self._healthy_since
        if not stored or waited > REGISTER_SECONDS:
            return True
        # The master is asked over gRPC, with its own shell (0.6 s): no other port answers that.
        shell = [find_binary("weed"), "shell", f"-master={self._master}"]
        try:
            said = subprocess.run(
                shell, input="volume.list\n", capture_output=True, text=True, env=self._env, timeout=10, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return said.stdout.count("volume Id:") >= stored


_VALID = dt.timedelta(days=3650)
_GRPC = ("MASTER", "VOLUME", "FILER", "S3", "ADMIN", "WORKER", "MQ", "MSG_BROKER", "CLIENT")
_HTTP = ("SIGNING", "SIGNING_READ", "FILER_SIGNING", "FILER_SIGNING_READ")


def create_identity(directory: Path) -> dict[str, str]:
    """Write a new certificate and its key; return the environment with which every part asks for them.

    SeaweedFS is several servers. Only its S3 port asks for the user's keys. Its own ports would obey whoever reaches
    them: `GET /col/delete?collection=BUCKET` of the master, for example, deletes every object of a bucket. So the parts
    speak gRPC over TLS and ask each other for this certificate; over HTTP they ask for tokens of new keys. Both last as
    long as the server: each start makes new ones.
    """
    make_directory(directory)
    certificate, key = directory / "s3-certificate.pem", directory / "s3-key.pem"
    private_key = ec.generate_private_key(ec.SECP256R1())
    write_atomically(key, private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the embedded store of Sexton")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(subject, subject, private_key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + _VALID)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    self_signed = builder.add_extension(loopback, critical=False).sign(private_key, hashes.SHA256())
    write_atomically(certificate, self_signed.public_bytes(Encoding.PEM).decode())
    grpc = {f"WEED_GRPC_{part}_CERT": str(certificate) for part in _GRPC}
    grpc |= {f"WEED_GRPC_{part}_KEY": str(key) for part in _GRPC}
    http = {f"WEED_JWT_{name}_KEY": secrets.token_hex(32) for name in _HTTP}
    return {"WEED_GRPC_CA": str(certificate)} | grpc | http
