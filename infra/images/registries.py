"""Registries that this project logs in to by itself: those of the clouds that it rents machines from."""

from infra.images import ecr


def sign_in(repository: str) -> tuple[str, str] | None:
    """Return a user and password for a repository's registry; None where the login is the user's own.

    Raises:
        ImageError: the cloud refuses, or there are no credentials for it.
    """
    host = repository.partition("/")[0]
    if region := ecr.region_of(repository):
        return ecr.credentials(region)
    from infra.images import google_registry  # slow to import

    return google_registry.credentials(host) if google_registry.is_host(host) else None


def pushed_digest(repository: str, tag: str) -> str | None:
    """Return the digest of what a tag names already; None if nothing, or if the registry can't be asked.

    The repository of a stack on AWS never changes what a tag names, and refuses even the same image again.

    Raises:
        ImageError: AWS refuses, or there are no credentials for it.
    """
    return ecr.digest_of(repository, tag) if ecr.region_of(repository) else None
