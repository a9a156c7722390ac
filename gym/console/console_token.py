"""Who may use the console: a bearer token, or a browser's log-in with it as the password; compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hmac

CHALLENGES = ('Bearer realm="gym"', 'Basic realm="gym: any user name, the token as password", charset="UTF-8"')


def is_admitted(authorization: str, token: str) -> bool:
    """Never without a token of our own: this is only asked where one is needed."""
    scheme, _, value = authorization.partition(" ")
    given = value.strip() if scheme.lower() == "bearer" else _password(value) if scheme.lower() == "basic" else ""
    return bool(token) and hmac.compare_digest(given.encode(), token.encode())


def _password(encoded: str) -> str:
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]
