"""Keys in the paths of served reports: without a link to a run, the address of its files cannot be guessed."""

import hashlib
import hmac

REPORTS_SECRET = "GRIDBENCH_REPORTS_SECRET"  # variable with the secret; without one, paths have no keys
KEY_HEX = 32  # digits of a key: 128 bits


def secret_of(auth: str) -> str:
    """Return the secret from which the keys of runs are made, by the password of a stack."""
    return _digest(auth, "reports")


def key_of_run(secret: str, run: str) -> str:
    """Return the part of a run's path that cannot be guessed: an HMAC of its name. Source: RFC 2104."""
    return _digest(secret, run)[:KEY_HEX]


def _digest(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
