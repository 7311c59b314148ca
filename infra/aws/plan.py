"""The plan of `up`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.aws.account import Account
from infra.aws.leftovers import buckets
from infra.aws.machines import MachineType, choose_zones, look_up, offers
from infra.aws.quotas import shortages
from infra.aws.settings import INSTANCES, StackOptions, instances_of, parameters
from infra.aws.stack import Stack, check_ready, read_ours
from infra.aws.template import body


@dataclass(frozen=True, slots=True)
class StackPlan:
    """A stack to make or change; `notes` are sentences to read before agreeing."""

    project: str
    stack: Stack | None
    creates: bool
    machines: Sequence[MachineType]
    parameters: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def body(self) -> str:
        return body(self.project, self.machines)


def make_plan(account: Account, wishes: StackOptions) -> StackPlan:
    cfn, ec2 = account.client("cloudformation"), account.client("ec2")
    stack = read_ours(cfn, wishes.project)
    check_ready(cfn, stack)
    creates = stack is None or stack.status == "REVIEW_IN_PROGRESS"
    previous, outputs = ({}, {}) if stack is None or creates else (stack.parameters, stack.outputs)
    machines = look_up(ec2, wishes.instances or instances_of(outputs) or INSTANCES)
    zones, notes = choose_zones(ec2, machines)
    if previous:  # other zones would mean other subnets, and so other machines for every queue
        zones = previous["ZoneA"], previous["ZoneB"]
        there = {name for zone in zones for name in offers(ec2, machines).get(zone, ())}
        notes = [f"{m.name} is in neither {zones[0]} nor {zones[1]}" for m in machines if m.name not in there]
    notes += shortages(account.client("service-quotas"), machines)
    kept = sorted(buckets(account, wishes.project)) if creates else []
    if kept:
        notes.append(f"bucket {kept[0]} of an earlier stack is used again for results")
    values = parameters(wishes, machines, zones, previous, kept[0] if kept else "")
    return StackPlan(wishes.project, stack, creates, machines, values, tuple(notes))
