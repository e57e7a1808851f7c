"""The identity by which the parts of the embedded S3 server know each other, so that no other process may join them.

SeaweedFS is several servers. Only its S3 port asks for the user's keys. Its own ports would obey whoever reaches them:
`GET /col/delete?collection=BUCKET` of the master, for example, deletes every object of a bucket.
"""

import datetime as dt
import ipaddress
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sexton.kernel.private import make_directory
from sexton.runtime.embedded.ports import write_atomically

_VALID = dt.timedelta(days=3650)
_GRPC = ("MASTER", "VOLUME", "FILER", "S3", "ADMIN", "WORKER", "MQ", "MSG_BROKER", "CLIENT")
_HTTP = ("SIGNING", "SIGNING_READ", "FILER_SIGNING", "FILER_SIGNING_READ")


def create_identity(directory: Path) -> dict[str, str]:
    """Write a new certificate and its key; return the environment with which every part asks for them.

    The parts speak gRPC over TLS and ask each other for this certificate; over HTTP they ask for tokens of new keys.
    Both last as long as the server: each start makes new ones.
    """
    make_directory(directory)
    certificate, key = directory / "s3-certificate.pem", directory / "s3-key.pem"
    private_key = ec.generate_private_key(ec.SECP256R1())
    write_atomically(key, private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    write_atomically(certificate, _self_signed(private_key).public_bytes(Encoding.PEM).decode())
    grpc = {f"WEED_GRPC_{part}_CERT": str(certificate) for part in _GRPC}
    grpc |= {f"WEED_GRPC_{part}_KEY": str(key) for part in _GRPC}
    http = {f"WEED_JWT_{name}_KEY": secrets.token_hex(32) for name in _HTTP}
    return {"WEED_GRPC_CA": str(certificate)} | grpc | http


def _self_signed(private_key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the embedded store of Sexton")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, private_key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + _VALID)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return builder.add_extension(loopback, critical=False).sign(private_key, hashes.SHA256())
