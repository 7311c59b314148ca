"""What looks like a secret: such files never leave the machine, and passwords of addresses are never told."""

import re
from fnmatch import fnmatch

from workloads.harness.records.secret_names import is_secret_name

# The first line of a key and some of the key itself: a program that only looks for such a line has no key.
KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\r|\\n|\s)+"
    rb"(?:[A-Za-z0-9+/=]{16}|Proc-Type:|Version:|Comment:)"
)
# Tokens whose form says what they are, by what each begins with, and a login in a file of settings.
TOKENS = re.compile(
    rb"(?<![\w+/-])(?:(?:AKIA|ASIA)(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{36}|hf_[A-Za-z]{34}"
    rb"|github_pat_\w{60,}|glpat-[\w-]{20,}|sk-(?:ant|proj)-[\w-]{32,}|xox[abprs]-[\w-]{20,}|AIza[\w-]{35})(?![\w+/-])"
)
STARTS = (
    *(b"AKIA", b"ASIA", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"hf_", b"github_pat_", b"glpat-"),
    *(b"sk-ant-", b"sk-proj-", b"xox", b"AIza"),
)  # looked for first, which is fast
TEXT_BYTES = 8000
SETTINGS = ("*.txt", "*.in", "*.toml", "*.lock", "*.cfg", "*.ini", "*.conf", "*.yml", "*.yaml", ".gitmodules")
PASSWORD = re.compile(rb"https?://[^/\s:@'\"]+:(?![$*<{])[^/\s:@'\"]+@")
# Who logs in, and what follows a question mark; `git@` is everybody's.
LOGIN, QUERY = re.compile(r"(://)(?!git@)[^/\s@]*@"), re.compile(r"(://[^\s?]*\?)\S+")


def without_logins(text: str) -> str:
    """Return a text whose addresses tell no user, password or token."""
    return QUERY.sub(r"\1***", LOGIN.sub(r"\1***@", text))


def holds_secret(value: bytes) -> bool:
    """Return whether a value contains a private key, a token of a known form, or an address with a password."""
    return bool(KEY.search(value) or _has_token(value) or PASSWORD.search(value))


def _has_token(content: bytes) -> bool:
    return any(start in content for start in STARTS) and bool(TOKENS.search(content))


def looks_secret(name: str, content: bytes) -> bool:
    """Return whether a file looks like a secret.

    Args:
        name: its path in the tree, with slashes.
        content: all of it.
    """
    if is_secret_name(name) or KEY.search(content):
        return True
    if b"\0" in content[:TEXT_BYTES]:  # git's own way to tell what is no text
        return False
    if _has_token(content):
        return True
    last = name.lower().rpartition("/")[2]
    is_settings = any(fnmatch(last, pattern) for pattern in SETTINGS)
    return is_settings and b"://" in content and bool(PASSWORD.search(content))
