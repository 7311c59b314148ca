"""A certificate authority that has signed nothing, for clients of a server that speaks http only."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

VALID = timedelta(days=36500)
NOTE = """\
The local server speaks http only. Prefect's clients read this file in place of all the world's certificates,
which take 60 ms of CPU each time. The key of this authority was never stored.
"""


def ensure_certificate(path: Path) -> None:
    """Write a self-signed authority to `path`, unless it is there; its key is forgotten."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(NOTE.encode() + _self_signed("nobody"))
    draft.replace(path)


def _self_signed(common_name: str) -> bytes:
    """Return a certificate in PEM, signed by a fresh key that nothing keeps."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks may be set back
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
