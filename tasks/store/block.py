"""Prefect blocks for results stores."""

from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from tasks.store.address import S3

if TYPE_CHECKING:  # slow to import, and most results are in a folder
    from prefect.filesystems import LocalFileSystem
    from prefect_aws import S3Bucket

    Storage: TypeAlias = S3Bucket | LocalFileSystem

EXPIRED = ("(ExpiredToken", "(RequestExpired")  # error codes of S3 and other services


def load_block(name: str) -> "Storage":
    """Read a block from the server.

    Raises:
        ValueError: none of this name.
    """
    from prefect.filesystems import LocalFileSystem
    from prefect_aws import S3Bucket

    kind, _, block = name.partition("/")
    load: Any = S3Bucket.load if kind == S3 else LocalFileSystem.load
    storage: Storage = load(block, _sync=True)  # their signatures do not show it
    return storage


def write(storage: "Storage", key: str, content: bytes) -> None:
    """Write from a thread without an event loop."""
    put: Any = storage.write_path
    try:
        put(key, content, _sync=True)
    except Exception as error:  # boto3 wraps S3's message
        if not any(code in str(error) for code in EXPIRED):
            raise
        _forget_clients()
        put(key, content, _sync=True)


def _forget_clients() -> None:
    """Assume the role anew: prefect_aws keeps the clients of an hour for ever."""
    from prefect_aws.credentials import _get_client_cached

    _get_client_cached.cache_clear()


def is_s3(storage: "Storage") -> "TypeGuard[S3Bucket]":
    from prefect_aws import S3Bucket

    return isinstance(storage, S3Bucket)
