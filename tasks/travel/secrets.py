"""What looks like a secret: such files never leave the machine, and passwords of addresses are never told."""

import re
from fnmatch import fnmatch

NAMES = (
    *(".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.ppk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("credentials", "credentials.json", "credentials.toml", ".git-credentials", ".netrc", ".pypirc"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig"),
)
PATHS = (".kube/config", ".docker/config.json", ".aws/config")
HARMLESS = ("*.pub", "*.py", "*.md", ".env.example", ".env.sample", ".env.template", ".env.dist")  # by name
# The first line of a key and some of the key itself: a program that only looks for such a line has no key.
KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\r|\\n|\s)+"
    rb"(?:[A-Za-z0-9+/=]{16}|Proc-Type:|Version:|Comment:)"
)
# Who logs in, and what follows a question mark; `git@` is everybody's.
LOGIN, QUERY = re.compile(r"(://)(?!git@)[^/\s@]*@"), re.compile(r"(://[^\s?]*\?)\S+")


def without_logins(text: str) -> str:
    """Return a text whose addresses tell no user, password or token."""
    return QUERY.sub(r"\1***", LOGIN.sub(r"\1***@", text))


def looks_secret(name: str, content: bytes) -> bool:
    """Return whether a file looks like a secret.

    Args:
        name: its path in the tree, with slashes.
        content: all of it.
    """
    lower = name.lower()
    last = lower.rpartition("/")[2]
    named = any(fnmatch(last, pattern) for pattern in NAMES)
    named = named or f"/{lower}".endswith(tuple(f"/{path}" for path in PATHS))
    harmless = any(fnmatch(last, pattern) for pattern in HARMLESS)
    return (named and not harmless) or bool(KEY.search(content))
