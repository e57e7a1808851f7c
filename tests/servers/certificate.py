"""A private authority and its certificate for a server on loopback."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = datetime.timedelta(days=1)


class Certificate(NamedTuple):
    """Files in PEM: the authority's certificate, the server's certificate, and its key."""

    authority: Path
    cert: Path
    key: Path


def certificate(directory: Path, *hosts: str) -> Certificate:
    """Write a new authority and its certificate for 127.0.0.1, localhost and other hosts into a directory."""
    files = Certificate(directory / "authority.pem", directory / "server.pem", directory / "server.key")
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _builder("Test authority", "Test authority", authority_key)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    names = [*map(x509.DNSName, ("localhost", *hosts)), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = _builder("localhost", "Test authority", server_key)
    server = server.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for path, builder in ((files.authority, authority), (files.cert, server)):
        signed = builder.sign(authority_key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files.key.write_bytes(server_key.private_bytes(*encoding))
    return files


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]),
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - LIFETIME,
        not_valid_after=now + LIFETIME,
    )
