"""A small issuer of JWTs with real keys on a free port of loopback, as a company's login service."""

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "sexton-test"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class Issuer:
    """Serves its public keys at ``/jwks`` and signs tokens. ``requests``: how often its keys were read."""

    def __init__(self) -> None:
        self.keys: dict[str, PrivateKey] = {}
        self.requests = 0
        self.answer: bytes | None = None
        """Sent instead of the keys."""
        self.status = 200
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests += 1
                body = issuer.document() if issuer.answer is None else issuer.answer
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write nothing to stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def settings(self, **scopes: list[str]) -> dict[str, object]:
        """Return the section ``oidc`` of the settings; ``scopes``: group → scopes."""
        places = {"issuer": self.url, "jwks": f"{self.url}/jwks"}
        return {**places, "audience": AUDIENCE, "claim": "groups", "scopes": scopes}

    def add_key(self, key_id: str, *, rsa_bits: int = 2_048, curve: bool = False) -> None:
        """Add a key of a size; ``curve``: of P-256 instead."""
        self.keys[key_id] = (
            ec.generate_private_key(ec.SECP256R1()) if curve else rsa.generate_private_key(65537, rsa_bits)
        )

    def document(self) -> bytes:
        """Return the public keys as a JSON Web Key Set."""
        return json.dumps({"keys": [jwk(key_id, key) for key_id, key in self.keys.items()]}).encode()

    def public_pem(self, key_id: str) -> bytes:
        encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        return self.keys[key_id].public_key().public_bytes(encoding, form)

    def claims(self, **changes: object) -> dict[str, Any]:
        """Return the claims of a good token; a change to None leaves a claim out."""
        now = int(time.time())
        claims: dict[str, Any] = {"iss": self.url, "aud": AUDIENCE, "sub": "robot-7", "iat": now, "exp": now + 600}
        return {name: value for name, value in (claims | {"groups": ["ops"]} | changes).items() if value is not None}

    def token(self, key_id: str = "k1", *, signed_by: PrivateKey | None = None, **changes: object) -> str:
        """Return a token that a key signs; ``signed_by``: another key under that id."""
        key = signed_by or self.keys[key_id]
        algorithm = "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256"
        return jwt.encode(self.claims(**changes), key, algorithm, headers={"kid": key_id})

    def forged(self, header: dict[str, object], secret: bytes | None = None, **changes: object) -> str:
        """Return a token with any header: unsigned, or with an HMAC by a secret, such as the public key."""
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, self.claims(**changes)))
        signature = b"" if secret is None else hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        return f"{signed}.{_base64(signature)}"

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def jwk(key_id: str, key: PrivateKey) -> dict[str, Any]:
    """Return the public half of a key as a JSON Web Key."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": key_id, "alg": "ES256", "use": "sig"}
    return RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": key_id, "alg": "RS256", "use": "sig"}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
