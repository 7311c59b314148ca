"""What a failed call of the Kubernetes API means: worth another try, or a sentence for the user."""

import asyncio
import json
from http import HTTPStatus

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.config import ConfigException

from infra.workers.base.job_configuration import JobRefused

QUOTA = "exceeded quota"  # https://kubernetes.io/docs/concepts/policy/resource-quotas
AWAY = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class Unclear(Exception):
    """The API, or a proxy before it, answered what is no answer."""


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, ApiException):
        return error.status == HTTPStatus.TOO_MANY_REQUESTS or (error.status or 0) >= 500
    return isinstance(error, (*AWAY, Unclear))


def said(error: ApiException) -> str:
    """What the API answered, in its own words; a proxy's page is no words."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    try:
        message = json.loads(body or "").get("message")
    except (ValueError, AttributeError):
        message = None
    return str(message or error.reason or HTTPStatus(error.status or 500).phrase).rstrip(". ")


def sentence(error: BaseException, doing: str) -> str:
    """Say in one sentence why a call failed; `doing` is what it was to do, such as "create jobs"."""
    if isinstance(error, ApiException):
        if error.status == HTTPStatus.UNAUTHORIZED:
            return f"The Kubernetes API does not accept the worker's credentials ({said(error)})."
        if error.status == HTTPStatus.FORBIDDEN and QUOTA not in said(error):
            return f"The worker has no right to {doing}: {said(error)}."
        return f"The Kubernetes API does not {doing} ({error.status}): {said(error)}."
    if isinstance(error, ConfigException):
        return f"The worker knows no cluster, neither its own nor by KUBECONFIG or cluster_config: {error}"
    what = str(error) or type(error).__name__
    return f"The Kubernetes API can't be reached: {what.rstrip('. ')}."


def refusal(error: BaseException, doing: str) -> JobRefused:
    """The same for a run that can't be submitted; a quota that is used up is no fault of the run's."""
    full = isinstance(error, ApiException) and QUOTA in said(error)
    return JobRefused(sentence(error, doing), "NoCapacity" if full else "Crashed")
