"""Failures of AWS calls."""

from typing import Literal

Trouble = Literal["throttled", "unreachable", "credentials", "denied", "refused"]

THROTTLED = {"TooManyRequestsException", "ThrottlingException", "Throttling", "RequestLimitExceeded"}
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
UNKNOWN_CREDENTIALS = {
    "AuthFailure",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "NotAuthorized",
    "UnauthorizedException",
    "UnauthorizedOperation",
}


def code_of(error: Exception) -> str:
    return str((getattr(error, "response", None) or {}).get("Error", {}).get("Code", ""))


def trouble(error: Exception) -> Trouble:
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    code = code_of(error)
    status = (getattr(error, "response", None) or {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in THROTTLED or status == 429:
        return "throttled"
    no_credentials = isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError))
    if no_credentials or code in EXPIRED | UNKNOWN_CREDENTIALS:
        return "credentials"
    if isinstance(error, (boto.CredentialRetrievalError, boto.ProfileNotFound, boto.SSOError)):
        return "credentials"
    if code in DENIED:
        return "denied"
    lost = (boto.HTTPClientError, boto.ConnectionError, ResponseParserError, OSError)
    if status >= 500 or isinstance(error, lost):
        return "unreachable"
    return "refused"


def worth_another_try(error: Exception) -> bool:
    return trouble(error) in ("throttled", "unreachable")


def sentence(error: Exception, call: str) -> str:
    from botocore import exceptions as boto

    response = getattr(error, "response", None) or {}
    message = str(response.get("Error", {}).get("Message") or error).rstrip(". ")
    if isinstance(error, boto.NoRegionError):
        return "region is not set, neither as a job variable nor for the worker (AWS_DEFAULT_REGION)."
    if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError)):
        return "The worker has no AWS credentials: give it a role, AWS_PROFILE or AWS_ACCESS_KEY_ID."
    name = type(error).__name__
    match trouble(error):
        case "credentials":
            return f"AWS does not accept the worker's credentials ({code_of(error) or name}: {message})."
        case "denied":
            return f"AWS does not allow the worker to call {call} ({message}): add the action to its role."
        case "throttled":
            return f"AWS throttles {call} ({code_of(error)})."
        case "unreachable":
            return f"AWS did not answer {call} ({message})."
    return f"AWS refused {call}: {message}."
