"""Errors of AWS; every function that asks AWS can raise one."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions as boto

from infra.errors import InfraError
from infra.workers.batch.errors import DENIED, EXPIRED, UNKNOWN_CREDENTIALS, code_of

CREDENTIALS = (
    "AWS credentials were not found: run `aws configure`, or set AWS_PROFILE, "
    "or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
MISSING = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.SSOError,
)
SILENT = (boto.ConnectionError, boto.HTTPClientError)


class AwsError(InfraError):
    """A problem with AWS that the user can fix."""


def sentence(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, MISSING):
        return f"{CREDENTIALS} ({text})"
    if isinstance(error, boto.ProfileNotFound):
        return f"{text}: AWS_PROFILE names it; `aws configure list-profiles` shows those there are"
    if isinstance(error, SILENT):
        return f"AWS does not answer ({text}): check the network and the region"
    if isinstance(error, boto.ClientError):
        return _answered(error)
    return text


def _answered(error: boto.ClientError) -> str:
    code, call = code_of(error), error.operation_name
    message = " ".join(str(error.response.get("Error", {}).get("Message", "")).split()).rstrip(".")
    if code in DENIED:
        return f"AWS refuses {call}: {message or code}; docs/aws.md lists the rights that are needed"
    if code in EXPIRED:
        return f"the AWS credentials have expired ({call}): sign in again"
    if code in UNKNOWN_CREDENTIALS:
        return (
            f"AWS does not know these credentials ({call}: {code}): check which ones are set, "
            "and that the account has enabled the region"
        )
    if code == "OptInRequired":
        return (
            f"AWS refuses {call}: this account has not enabled the region, or has no subscription ({message})"
        )
    return f"AWS answers {call} with {code or 'an error'}: {message or 'no reason given'}"


@contextmanager
def in_words() -> Iterator[None]:
    try:
        yield
    except (boto.BotoCoreError, boto.ClientError) as error:
        raise AwsError(sentence(error)) from error
