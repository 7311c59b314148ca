"""Failures of the Kubernetes API."""

import asyncio
import json
from http import HTTPStatus

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.config import ConfigException

from infra.workers.base.job_configuration import JobRefused

QUOTA = "exceeded quota"  # https://kubernetes.io/docs/concepts/policy/resource-quotas
LONGEST_REASON = 500  # characters of a plugin's text
AWAY = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class Unclear(Exception):
    """An answer that is not one of the API's, perhaps a proxy's."""


class LoginFailed(Exception):
    """A cluster's configuration gives no credentials; the text is the plugin's."""


def transient(error: BaseException) -> bool:
    if isinstance(error, ApiException):
        return error.status == HTTPStatus.TOO_MANY_REQUESTS or (error.status or 0) >= 500
    return isinstance(error, (*AWAY, Unclear, LoginFailed))


def message_of(error: ApiException) -> str:
    """Return the API's message; empty for a proxy's page."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    try:
        message = json.loads(body or "").get("message")
    except (ValueError, AttributeError):
        message = None
    return str(message or error.reason or HTTPStatus(error.status or 500).phrase).rstrip(". ")


def sentence(error: BaseException, doing: str) -> str:
    """Describe a failed call; `doing` names its purpose, such as "create jobs"."""
    if isinstance(error, ApiException):
        if error.status == HTTPStatus.UNAUTHORIZED:
            return f"The Kubernetes API does not accept the worker's credentials ({message_of(error)})."
        if error.status == HTTPStatus.FORBIDDEN and QUOTA not in message_of(error):
            return f"The worker is not allowed to {doing}: {message_of(error)}."
        return f"The Kubernetes API does not {doing} ({error.status}): {message_of(error)}."
    if isinstance(error, ConfigException):
        return f"Neither cluster_config nor KUBECONFIG names a cluster, and the worker runs outside of one: {error}"
    if isinstance(error, LoginFailed):
        reason = " ".join(str(error).split())[:LONGEST_REASON].rstrip(". ")
        return f"The worker can't log in to its Kubernetes cluster: {reason}."
    reason = str(error) or type(error).__name__
    return f"The Kubernetes API can't be reached: {reason.rstrip('. ')}."


def refusal(error: BaseException, doing: str) -> JobRefused:
    """Return NoCapacity for a used-up quota."""
    full = isinstance(error, ApiException) and QUOTA in message_of(error)
    return JobRefused(sentence(error, doing), "NoCapacity" if full else "Crashed")
