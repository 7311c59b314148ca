"""Secret files never leave the machine, and passwords are never shown."""

import math
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from workloads.harness.records.secret_names import is_secret_name

# The first line of a key and some of the key: a program that looks for such a line has no key.
KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\r|\\n|\s)+"
    rb"(?:[A-Za-z0-9+/=]{16}|Proc-Type:|Version:|Comment:)"
    rb"|PuTTY-User-Key-File-[23]: [\w-]+\s+Encryption: "
)
TOKENS = Path(__file__).with_name("secret_tokens.toml")
TEXT_BYTES = 8000
SETTINGS = (
    *(
        "*.sh",
        "*.bash",
        "*.env*",
        "*rc",
        "*.json",
        "*.properties",
        "*.txt",
        "*.in",
        "*.toml",
        "*.lock",
        "*.cfg",
    ),
    *("*.ini", "*.conf", "*.yml", "*.yaml", ".gitmodules"),
)
# A login in an address, but no placeholder (`$`, `<`, braces, PASSWORD) or this machine's database.
PASSWORD = re.compile(
    rb"[a-z][a-z0-9+.-]*://[^/\s:@'\"]*:(?![$*<{]|(?:PASS|PASSWORD|SECRET|TOKEN)@)[^/\s:@'\"]+@"
    rb"(?!(?:localhost|127\.0\.0\.1|\[::1\])(?![\w.-]))"
)
# A setting whose name ends like a secret's, and its value.
ASSIGNED = re.compile(
    rb"(?<!\w)(?<!\$\{)(?:(?i:[\w.-]{0,40}(?:api_?key|access_?key|secret_?key|client_?secret|auth_?token|access_?token"
    rb"|api_?token|password|passwd))|[A-Z][A-Z0-9_]*_(?:TOKEN|SECRET))"
    rb"['\"]?[ \t]*[=:][ \t]*['\"]?([^\s'\"#,;]{12,})"
)
REFERENCES = (b"$", b"<", b"{", b"*", b"/", b"./", b"~", b"env:", b"block:", b"arn:", b"http")
LEAST_BITS = 3.0  # per character of a secret value; placeholders have less, or no digit
# Login, and query after a question mark; `git@` is public.
LOGIN, QUERY = re.compile(r"(://)(?!git@)[^/\s@]*@"), re.compile(r"(://[^\s?]*\?)\S+")


def without_logins(text: str) -> str:
    """Remove users, passwords and tokens from addresses."""
    return QUERY.sub(r"\1***", LOGIN.sub(r"\1***@", text))


def holds_secret(value: bytes) -> bool:
    """Return True for a private key, a token, or an address with a password."""
    return bool(KEY.search(value) or _has_token(value) or PASSWORD.search(value))


def looks_secret(name: str, content: bytes) -> bool:
    """Judge by path and content."""
    if is_secret_name(name) or KEY.search(content):
        return True
    if b"\0" in content[:TEXT_BYTES]:  # git's own test for binary files
        return False
    if _has_token(content):
        return True
    last = name.lower().rpartition("/")[2]
    if not any(fnmatch(last, pattern) for pattern in SETTINGS):
        return False
    return (b"://" in content and bool(PASSWORD.search(content))) or _assigns_secret(content)


@dataclass(frozen=True, slots=True)
class TokenRule:
    """A form of tokens.

    Attributes:
        starts: every token has one of these.
        form: of whole tokens.
        entropy: least bits per character.
    """

    starts: tuple[bytes, ...]
    form: re.Pattern[bytes]
    entropy: float

    def found_in(self, content: bytes) -> bool:
        if not any(start in content for start in self.starts):
            return False
        return any(entropy_bits(match[0]) >= self.entropy for match in self.form.finditer(content))


def _has_token(content: bytes) -> bool:
    return any(rule.found_in(content) for rule in _rules())


@cache
def _rules() -> tuple[TokenRule, ...]:
    return tuple(
        TokenRule(
            tuple(start.encode() for start in rule["starts"]),
            re.compile(rf"(?<![\w+/-])(?:{rule['form']})(?![\w+/-])".encode()),
            rule.get("entropy", 0.0),
        )
        for rule in tomllib.loads(TOKENS.read_text())["rules"]
    )


def entropy_bits(text: bytes) -> float:
    """Return Shannon's entropy per character."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())


def _assigns_secret(content: bytes) -> bool:
    """Return whether settings assign letters and digits of high entropy."""
    values = (match[1] for match in ASSIGNED.finditer(content))
    return any(
        not value.startswith(REFERENCES)
        and any(chr(sign).isdigit() for sign in value)
        and any(chr(sign).isalpha() for sign in value)
        and entropy_bits(value) >= LEAST_BITS
        for value in values
    )
