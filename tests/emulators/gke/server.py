"""google.container.v1.ClusterManager over real gRPC, with the package's own messages."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.cloud import container_v1 as gke
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from tests.emulators.gke import reasons
from tests.emulators.gke.account import Account, Refusal
from tests.emulators.gke.admission import admit_cluster, admit_pool

SERVICE = "google.container.v1.ClusterManager"
Cluster, Pool = gke.Cluster.Status, gke.NodePool.Status


def list_clusters(account: Account, request: gke.ListClustersRequest) -> gke.ListClustersResponse:
    parent = request.parent.removesuffix("/-")
    found = [cluster for name, cluster in account.clusters.items() if name.startswith(f"{parent}/")]
    return gke.ListClustersResponse(clusters=found, missing_zones=account.missing_zones)


def get_cluster(account: Account, request: gke.GetClusterRequest) -> gke.Cluster:
    return _cluster(account, request.name)


def _cluster(account: Account, name: str) -> gke.Cluster:
    if name not in account.clusters:
        raise Refusal(grpc.StatusCode.NOT_FOUND, reasons.NOT_FOUND.format(name=name))
    return account.clusters[name]


def create_cluster(account: Account, request: gke.CreateClusterRequest) -> gke.Operation:
    name = f"{request.parent}/clusters/{request.cluster.name}"
    if name in account.clusters:
        raise Refusal(grpc.StatusCode.ALREADY_EXISTS, reasons.EXISTS.format(name=name))
    made = admit_cluster(account, request.parent, request.cluster)
    made.status = Cluster.PROVISIONING
    for pool in made.node_pools:
        pool.status = Pool.PROVISIONING
    account.clusters[name] = made

    def deed(error: str) -> None:
        made.status = Cluster.ERROR if error else Cluster.RUNNING
        made.status_message = error
        for pool in made.node_pools:
            pool.status = Pool.ERROR if error else Pool.RUNNING
        if not error:
            made.endpoint = account.endpoint
            made.master_auth = gke.MasterAuth(cluster_ca_certificate=account.ca)
            made.current_node_count = sum(pool.initial_node_count for pool in made.node_pools)

    return account.begin("CREATE_CLUSTER", name, deed)


def delete_cluster(account: Account, request: gke.DeleteClusterRequest) -> gke.Operation:
    found = _cluster(account, request.name)
    account.check_idle(request.name)
    found.status = Cluster.STOPPING

    def deed(error: str) -> None:
        if error:
            found.status, found.status_message = Cluster.ERROR, error
        else:
            del account.clusters[request.name]

    return account.begin("DELETE_CLUSTER", request.name, deed)


def create_node_pool(account: Account, request: gke.CreateNodePoolRequest) -> gke.Operation:
    cluster, wanted = _cluster(account, request.parent), request.node_pool
    account.check_idle(request.parent)
    name = f"{request.parent}/nodePools/{wanted.name}"
    if wanted.name in [pool.name for pool in cluster.node_pools]:
        raise Refusal(grpc.StatusCode.ALREADY_EXISTS, reasons.EXISTS.format(name=name))
    made = admit_pool(account, cluster, wanted)
    made.status = Pool.PROVISIONING
    cluster.node_pools.append(made)
    made = cluster.node_pools[-1]

    def deed(error: str) -> None:
        made.status, made.status_message = Pool.ERROR if error else Pool.RUNNING, error

    return account.begin("CREATE_NODE_POOL", name, deed)


def delete_node_pool(account: Account, request: gke.DeleteNodePoolRequest) -> gke.Operation:
    parent, _, wanted = request.name.partition("/nodePools/")
    cluster = _cluster(account, parent)
    account.check_idle(parent)
    if wanted not in [pool.name for pool in cluster.node_pools]:
        raise Refusal(grpc.StatusCode.NOT_FOUND, reasons.NOT_FOUND.format(name=request.name))

    def deed(error: str) -> None:
        kept = [gke.NodePool(pool) for pool in cluster.node_pools if pool.name != wanted]
        cluster.node_pools = cluster.node_pools if error else kept

    return account.begin("DELETE_NODE_POOL", request.name, deed)


def get_operation(account: Account, request: gke.GetOperationRequest) -> gke.Operation:
    return account.look(request.name)


def list_operations(account: Account, request: gke.ListOperationsRequest) -> gke.ListOperationsResponse:
    found = [work.operation for name, work in account.works.items() if name.startswith(f"{request.parent}/")]
    return gke.ListOperationsResponse(operations=found)


METHODS: dict[str, tuple[Any, Any, Any]] = {
    "ListClusters": (list_clusters, gke.ListClustersRequest, gke.ListClustersResponse),
    "GetCluster": (get_cluster, gke.GetClusterRequest, gke.Cluster),
    "CreateCluster": (create_cluster, gke.CreateClusterRequest, gke.Operation),
    "DeleteCluster": (delete_cluster, gke.DeleteClusterRequest, gke.Operation),
    "CreateNodePool": (create_node_pool, gke.CreateNodePoolRequest, gke.Operation),
    "DeleteNodePool": (delete_node_pool, gke.DeleteNodePoolRequest, gke.Operation),
    "GetOperation": (get_operation, gke.GetOperationRequest, gke.Operation),
    "ListOperations": (list_operations, gke.ListOperationsRequest, gke.ListOperationsResponse),
}


def answer(account: Account, method: str, request: Any) -> Any:
    with account.lock:
        account.requests.append((method, request))
        fault = next((each for each in account.faults if each.method == method), None)
        if fault:
            fault.times -= 1
            account.faults = [each for each in account.faults if each.times]
        if fault is None or fault.after:
            result = METHODS[method][0](account, request)
        if fault:
            raise Refusal(fault.code, fault.text, fault.reason)
        return type(result)(result)  # a copy, so that nothing changes while it is written out


def _handler(account: Account, method: str) -> grpc.RpcMethodHandler:
    _, asked, answered = METHODS[method]

    def call(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return answer(account, method, request)
        except Refusal as refusal:
            context.abort_with_status(rpc_status.to_status(_status(refusal)))

    return grpc.unary_unary_rpc_method_handler(
        call, request_deserializer=asked.deserialize, response_serializer=answered.serialize
    )


def _status(refusal: Refusal) -> Status:
    status = Status(code=refusal.code.value[0], message=refusal.text)
    if refusal.reason:
        detail = AnyMessage()
        detail.Pack(ErrorInfo(reason=refusal.reason, domain="googleapis.com"))
        status.details.append(detail)
    return status


@contextmanager
def serve(account: Account) -> Iterator[str]:
    """Yield HOST:PORT of the emulator."""
    server = grpc.server(ThreadPoolExecutor(4))
    handlers = {method: _handler(account, method) for method in METHODS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(1).wait()  # at once if no answer is under way
