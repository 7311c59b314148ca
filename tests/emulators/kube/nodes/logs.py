"""The pods/log subresource."""

import datetime as dt
from typing import TYPE_CHECKING

from aiohttp import web

from tests.emulators.kube.api_server.objects import (
    KINDS,
    Obj,
    Refused,
    bad_request,
    find_condition,
    not_found,
)
from tests.emulators.kube.api_server.watching import TRUE, gone, whole
from tests.emulators.kube.nodes.runner import Log

if TYPE_CHECKING:
    from tests.emulators.kube.cluster import Cluster

# pkg/kubelet/kubelet_pods.go
WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
UNREACHABLE = (
    'Get "https://{ip}:10250/containerLogs/{namespace}/{pod}/{container}": dial tcp {ip}:10250: i/o timeout'
)


async def serve(cluster: "Cluster", request: web.Request, pod: Obj) -> web.StreamResponse:
    query = dict(request.query)
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    log = log_of(cluster, pod, query)
    if log is None:
        return web.Response(text="")
    lines = selected(log, query)
    await response.prepare(request)
    stamped = query.get("timestamps") in TRUE
    try:
        at = len(log.lines)
        await response.write(b"".join(shown(line, stamped) for line in lines))
        while query.get("follow") in TRUE and not gone(request):
            more = log.more
            for line in log.lines[at:]:
                await response.write(shown(line, stamped))
                at += 1
            if log.closed and at == len(log.lines):
                break
            if at == len(log.lines):
                await more.wait()
    except ConnectionError:
        pass
    return response


def selected(log: Log, query: dict[str, str]) -> list[tuple[dt.datetime, bytes]]:
    lines = list(log.lines)
    if since_s := whole(query, "sinceSeconds"):
        oldest = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=since_s)
        lines = [line for line in lines if line[0] >= oldest]
    if since := query.get("sinceTime"):
        lines = [line for line in lines if line[0] >= dt.datetime.fromisoformat(since)]
    if "tailLines" in query:
        count = whole(query, "tailLines")
        lines = lines[-count:] if count else []
    return lines


def shown(line: tuple[dt.datetime, bytes], stamped: bool) -> bytes:
    time, text = line
    return f"{time:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() + text if stamped else text


def log_of(cluster: "Cluster", pod: Obj, query: dict[str, str]) -> Log | None:
    """Return the log, or None for a pod without a node; raise Refused."""
    name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
    if (wanted := query.get("container") or container) != container:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    if not (node_name := pod["spec"].get("nodeName")):
        return None
    check_node(cluster, pod, node_name)
    logs = cluster.kubelet.logs.get(pod["metadata"]["uid"], [])
    if query.get("previous") in TRUE:
        if len(logs) < 2:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return logs[-2]
    if not logs:
        statuses = pod["status"].get("containerStatuses") or [{}]
        reason = statuses[0].get("state", {}).get("waiting", {}).get("reason", "ContainerCreating")
        why = WAITING.get(reason, reason)
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')
    return logs[-1]


def check_node(cluster: "Cluster", pod: Obj, name: str) -> None:
    node = cluster.store.find("nodes", ("", name))
    if node is None:
        raise not_found(KINDS["nodes"], name)
    metadata = pod["metadata"]
    if not find_condition(node, "Ready") and any(
        taint["key"] == "node.kubernetes.io/unreachable" for taint in node["spec"].get("taints") or []
    ):
        place = {"namespace": metadata["namespace"], "pod": metadata["name"], "ip": "10.0.0.2"}
        text = UNREACHABLE.format(container=pod["spec"]["containers"][0]["name"], **place)
        raise Refused(500, "InternalError", f"Internal error occurred: {text}")
