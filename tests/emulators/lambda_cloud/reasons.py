"""Every error of the Lambda emulator, and beliefs about the service, with sources.

[doc] Lambda's own documents, above all the API document at cloud.lambda.ai/api/v1/openapi.json (1.8.3, still
so in 1.10.0); [thread] seen by others on Lambda; [belief] not found in writing: the smoke script of
docs/lambda.md asks.
"""

from typing import NamedTuple


class Answer(NamedTuple):
    """An error in the API's words."""

    status: int
    code: str
    message: str
    suggestion: str | None = None


# [doc] openapi.json, ApiErrorUnauthorized: the code has no other status, and 401 no other code
INVALID_KEY = Answer(
    401,
    "global/invalid-api-key",
    "API key was invalid, expired, or deleted.",
    "Check your API key or create a new one, then try again.",
)
# [doc] openapi.json, ApiErrorAccountInactive: 403 of every call
ACCOUNT_INACTIVE = Answer(
    403,
    "global/account-inactive",
    "Your account is inactive.",
    "Make sure you have verified your email address and have a valid payment method. Contact Support if problems "
    "continue.",
)
# [doc] openapi.json, ApiErrorInvalidBillingAddress: 403 of a launch alone
INVALID_ADDRESS = Answer(
    403,
    "global/invalid-address",
    "Your billing address is invalid.",
    "Make sure your billing address is valid. Contact Support if problems continue.",
)
# [doc] openapi.json, ApiErrorInstanceNotFound
NO_INSTANCE = Answer(404, "global/object-does-not-exist", "Specified instance does not exist.")
# [doc] openapi.json, ApiErrorLaunchResourceNotFound: the 404, and also a 400, of a launch
NO_RESOURCE = Answer(404, "global/object-does-not-exist", "{what} {name} was not found.", "Check the {what}.")
# [doc] openapi.json, ApiErrorInvalidParameters; the message names the error
INVALID = Answer(400, "global/invalid-parameters", "{message}")
# [doc] openapi.json, ApiErrorQuotaExceeded: 400 of a launch
QUOTA = Answer(400, "global/quota-exceeded", "Quota exceeded.", "Contact Support to increase your quota.")
# [doc] openapi.json, ApiErrorInsufficientCapacity; [thread] skypilot-org/skypilot #1557 and others: also right after
# the type was listed with capacity
NO_CAPACITY = Answer(
    400,
    "instance-operations/launch/insufficient-capacity",
    "Not enough capacity to fulfill launch request.",
)
# [doc] openapi.json, ApiErrorInternal
INTERNAL = Answer(500, "global/internal-error", "An internal server error occurred.", "Try again later.")
# [belief] openapi.json has ApiErrorDuplicate for other resources; our names are unique
DUPLICATE = Answer(400, "global/duplicate", "An SSH key named {name} exists.")
# [belief] a code of a provider behind Lambda, with any 5xx: openapi.json allows codes that it does not list
PROVIDER = Answer(503, "provider/internal-unavailable", "Provider unavailable", "Try again shortly")
# [doc] docs.lambda.ai/public-cloud/cloud-api: one request a second, one launch in 12 s (once 10 s);
# [belief] the answer is 429 in plain text; the client reads no more of it than the status and Retry-After
TOO_MANY = Answer(429, "", "Too Many Requests")


class Belief(NamedTuple):
    """A behaviour of the service with its source; `paid` if only a rented box can show it."""

    mark: str
    sentence: str
    source: str
    paid: bool = True


BEHAVIOUR = {
    "wrong_key": Belief("doc", "a wrong key is answered with 401 and its code", "openapi.json", paid=False),
    "no_instance": Belief("doc", "an unknown instance is 404 with its code", "openapi.json", paid=False),
    "no_type": Belief("doc", "a launch of an unknown type makes nothing", "openapi.json", paid=False),
    "same_name": Belief("belief", "a second SSH key of one name is refused", "none", paid=False),
    "key_gone": Belief("doc", "an SSH key that is gone can't be removed: 400", "openapi.json", paid=False),
    "other_agent": Belief(
        "belief", "the gateway lets httpx's own name pass, too", "cth9191/higgsfield-api-skill #1", paid=False
    ),
    "tags": Belief("doc", "a fresh instance is listed with its name and tags", "openapi.json, Instance.tags"),
    "host_key": Belief(
        "belief",
        "the image's cloud-init takes `ssh_keys` of the user data, and no other host key is ever shown",
        "openapi.json, user_data; docs.cloud-init.io, boot stages: before SSH",
    ),
    "docker": Belief(
        "thread", "`sudo docker` works, without a password", "skypilot-org/skypilot #2525; docs.lambda.ai"
    ),
    "gpus": Belief("doc", "Docker has NVIDIA's runtime", "docs.lambda.ai, managing your system environment"),
    "tools": Belief("belief", "flock, setsid, xargs, tail and ps are there", "Ubuntu's packages"),
    "tunnel": Belief("belief", "sshd forwards ports", "OpenSSH's default"),
    "terminate": Belief("doc", "a termination answers with the instance, `terminating`", "openapi.json"),
    "twice": Belief("belief", "a second termination is no mistake, or is 404", "none"),
}
