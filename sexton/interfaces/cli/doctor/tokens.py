"""Check who may use the API: does a token that a program uses end soon, can the keys of the issuer of JWTs be read?"""

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.insight.wording import utc
from sexton.interfaces.cli.doctor.finding import DoctorFinding

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.operators.access.model import Token
    from sexton.runtime.stores import DeploymentStores

MAX_NAMED = 5


def examine_tokens(stores: "DeploymentStores") -> Iterator[DoctorFinding]:
    """Yield a warning about tokens that a program used lately and that end within two weeks; none if there are none."""
    expiring = stores.tokens.expiring()
    if expiring:
        token_texts = "; ".join(expiry_text(token) for token in expiring[:MAX_NAMED])
        more = f"; and {len(expiring) - MAX_NAMED} more" if len(expiring) > MAX_NAMED else ""
        todo = "renew those still needed: sexton token renew TOKEN; or create others: sexton token create"
        yield DoctorFinding("WARN", "tokens", f"{token_texts}{more}", todo)


def examine_issuer(settings: "Settings") -> Iterator[DoctorFinding]:
    """Yield a finding about the issuer of JWTs; none if there is none."""
    section = settings.oidc
    if not section.issuer:
        return
    todo = "JWTs are refused, if not now then when the known keys are too old; see [oidc] in docs/api.md"
    if importlib.util.find_spec("jwt") is None:
        yield DoctorFinding("FAIL", "oidc", "PyJWT is not installed", "pip install 'sexton[api]'")
        return
    from sexton.operators.access.errors import IssuerAway
    from sexton.operators.access.oidc import count_keys

    try:
        count = count_keys(section.jwks)
    except IssuerAway as e:
        yield DoctorFinding("FAIL", "oidc", str(e), todo)
        return
    detail = f"{count} keys of {section.issuer} can verify tokens"
    yield DoctorFinding("OK", "oidc", detail) if count else DoctorFinding("FAIL", "oidc", detail, todo)


def expiry_text(token: "Token") -> str:
    """Return a line about a token that ends soon."""
    return f"token {token.id} ({token.scope}) is in use and ends {utc(token.expires_at)}"
