"""TLS in front of a local port, with its own certificate."""

import asyncio
import contextlib
import ipaddress
import ssl
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"


def certificate() -> tuple[bytes, bytes]:
    """Return a self-signed certificate for this machine and its key, in PEM."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False
        )
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.public_bytes(Encoding.PEM), private


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(65536):
            target.write(chunk)
            await target.drain()
    with contextlib.suppress(OSError):
        target.close()


@contextlib.contextmanager
def in_front_of(port: int) -> Iterator[tuple[str, bytes]]:
    """Yield HOST:PORT with TLS, and the certificate to trust."""
    public, private = certificate()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(public + private)
        context.load_cert_chain(file.name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, to_behind = await asyncio.open_connection(HOST, port)
        await asyncio.gather(pump(reader, to_behind), pump(behind, writer))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    opened = asyncio.run_coroutine_threadsafe(
        asyncio.start_server(serve, HOST, 0, ssl=context), loop
    ).result()
    try:
        yield f"{HOST}:{opened.sockets[0].getsockname()[1]}", public
    finally:
        loop.call_soon_threadsafe(opened.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
