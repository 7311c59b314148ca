"""Unguessable keys in paths of served reports."""

import hashlib
import hmac

REPORTS_SECRET = "GRIDBENCH_REPORTS_SECRET"  # variable with the secret; without one, paths have no keys
KEY_HEX = 32  # digits of a key: 128 bits


def secret_of(auth: str) -> str:
    """Return the secret behind runs' keys, from a stack's password."""
    return _digest(auth, "reports")


def key_of_run(secret: str, run: str) -> str:
    """Return an HMAC of the run's name (RFC 2104)."""
    return _digest(secret, run)[:KEY_HEX]


def _digest(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
