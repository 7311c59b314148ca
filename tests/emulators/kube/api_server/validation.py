"""Errors of readable Jobs and pods, in the words of Kubernetes 1.36."""

import json
import re

from tests.emulators.kube.api_server.objects import Obj
from tests.emulators.kube.api_server.quantities import checked

LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LABEL_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
DNS_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NEGATIVE = "must be greater than or equal to 0"
RESTARTS = 'Required value: valid values: "OnFailure", "Never"'
NO_OVERCOMMIT = "Required value: Limit must be set for non overcommitable resources"
COUNTS = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")


def label_errors(labels: dict[str, str], path: str) -> list[str]:
    errors = []
    for name, value in labels.items():
        if not LABEL_NAME.fullmatch(name):
            errors.append(f"{path}: Invalid value: {json.dumps(name)}: {NAME_RULE}")
        if len(value) > 63:
            errors.append(f"{path}: Invalid value: {json.dumps(value)}: must be no more than 63 bytes")
        elif not LABEL_VALUE.fullmatch(value):
            errors.append(f"{path}: Invalid value: {json.dumps(value)}: {LABEL_RULE}")
    return errors


def job_errors(job: Obj) -> list[str]:
    spec = job["spec"]
    errors = [
        f"spec.{name}: Invalid value: {spec[name]}: {NEGATIVE}" for name in COUNTS if spec.get(name, 0) < 0
    ]
    template = spec["template"]
    errors += label_errors(template["metadata"]["labels"], "spec.template.labels")
    errors += pod_errors(template["spec"], "spec.template.spec")
    policy = template["spec"].get("restartPolicy")
    if policy is None:
        errors.append(f"spec.template.spec.restartPolicy: {RESTARTS}")
    elif policy not in ("Never", "OnFailure"):
        said = f'Unsupported value: "{policy}": supported values: "OnFailure", "Never"'
        errors.append(f"spec.template.spec.restartPolicy: {said}")
    return errors


def pod_errors(spec: Obj, path: str) -> list[str]:
    errors = []
    containers = spec.get("containers") or []
    if not containers:
        errors.append(f"{path}.containers: Required value")
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    for at, container in enumerate(containers):
        errors += container_errors(container, f"{path}.containers[{at}]", volumes)
    grace = spec.get("terminationGracePeriodSeconds", 0)
    if grace < 0:
        errors.append(f"{path}.terminationGracePeriodSeconds: Invalid value: {grace}: {NEGATIVE}")
    return errors


def container_errors(container: Obj, path: str, volumes: set[str | None]) -> list[str]:
    errors, name = [], container.get("name")
    if not name:
        errors.append(f"{path}.name: Required value")
    elif not DNS_LABEL.fullmatch(name) or len(name) > 63:
        errors.append(f"{path}.name: Invalid value: {json.dumps(name)}: {DNS_RULE}")
    if not container.get("image"):
        errors.append(f"{path}.image: Required value")
    for at, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("name") not in volumes:
            errors.append(f"{path}.volumeMounts[{at}].name: Not found: {json.dumps(mount.get('name', ''))}")
    for at, entry in enumerate(container.get("env") or []):
        if not entry.get("name"):
            errors.append(f"{path}.env[{at}].name: Required value")
    return errors + resource_errors(container.get("resources") or {}, f"{path}.resources")


def resource_errors(resources: Obj, path: str) -> list[str]:
    """Return errors of requests above limits and of resources without overcommit; 400 if unreadable."""
    errors = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in sorted({*limits, *requests}):
        limit = checked(limits[name], "Job") if name in limits else None
        asked = checked(requests[name], "Job") if name in requests else None
        extended = "/" in name
        if extended and limit is None:
            errors.append(f"{path}.limits: {NO_OVERCOMMIT}")
        elif extended and asked is not None and asked != limit:
            said = f'Invalid value: "{requests[name]}": must be equal to {name} limit of {limits[name]}'
            errors.append(f"{path}.requests: {said}")
        elif limit is not None and asked is not None and asked > limit:
            rule = f"must be less than or equal to {name} limit of {limits[name]}"
            said = f'Invalid value: "{requests[name]}": {rule}'
            errors.append(f"{path}.requests: {said}")
        if extended and limit is not None and limit != int(limit):
            errors.append(f'{path}.limits[{name}]: Invalid value: "{limits[name]}": must be an integer')
    return errors
