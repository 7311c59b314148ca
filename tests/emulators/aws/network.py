"""Patch moto 5.2.5's CloudFormation of networks: it drops tags and never deletes some resources."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ec2.models.internet_gateways import InternetGateway
from moto.ec2.models.route_tables import RouteTable
from moto.ec2.models.vpcs import VPCEndPoint


def with_tags(original: Callable) -> Callable:
    @wraps(original)
    def mended(
        cls: type, resource_name: str, cloudformation_json: dict[str, Any], *arguments: Any, **options: Any
    ) -> Any:
        made = original.__func__(cls, resource_name, cloudformation_json, *arguments, **options)
        for tag in cloudformation_json.get("Properties", {}).get("Tags", []):
            made.add_tag(tag["Key"], tag["Value"])
        return made

    return mended


def delete_gateway(cls: type, name: str, json: dict[str, Any], account: str, region: str) -> None:
    backend = ec2_backends[account][region]
    if gateway := backend.internet_gateways.get(name):
        if gateway.vpc:
            backend.detach_internet_gateway(name, gateway.vpc.id)
        backend.delete_internet_gateway(name)


def delete_endpoint(cls: type, name: str, json: dict[str, Any], account: str, region: str) -> None:
    backend = ec2_backends[account][region]
    if endpoint := backend.vpc_end_points.get(name):
        if all(table in backend.route_tables for table in endpoint.route_table_ids):
            backend.delete_vpc_endpoints([name])
        endpoint.state = "deleted"  # also if its route table was deleted first


def install() -> None:
    for cls in (InternetGateway, RouteTable, VPCEndPoint):
        mended = with_tags(cls.__dict__["create_from_cloudformation_json"])
        cls.create_from_cloudformation_json = classmethod(mended)
    InternetGateway.delete_from_cloudformation_json = classmethod(delete_gateway)
    VPCEndPoint.delete_from_cloudformation_json = classmethod(delete_endpoint)
