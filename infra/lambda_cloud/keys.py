"""SSH keys of one rental: the user's, and the host's, which is pinned from the first connection."""

from dataclasses import dataclass, field

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ed25519 key pair in OpenSSH's formats."""

    public: str
    private: str = field(repr=False)


def key_pair(comment: str) -> KeyPair:
    """Make a fresh key pair; the comment ends the public key's line."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return KeyPair(f"{public} {comment}", private)


def cloud_config(host: KeyPair) -> str:
    """Return cloud-init's user data that gives a box this host key and no other."""
    keys = {"ed25519_private": host.private, "ed25519_public": host.public}
    return "#cloud-config\n" + yaml.safe_dump({"ssh_deletekeys": True, "ssh_keys": keys}, width=1000)
