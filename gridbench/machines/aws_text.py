"""Tables of the AWS stack."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from gridbench.machines.cloud import prices, usd_cell
from gridbench.terminal import console, say, table_of
from tasks.pricing.facts import Fact

if TYPE_CHECKING:  # they import boto3, which is slow, and other commands do without
    from infra.aws.machines import MachineType
    from infra.aws.stack import ResourceChange
    from infra.aws.state import Queue, RunningInstance

# List prices of us-east-1, from aws.amazon.com/<ebs, vpc, s3, ecr, cloudwatch>/pricing.
DISK_USD_PER_HOUR = 100 * 0.08 / 730  # 100 GB of gp3 at 0.08 USD a GB-month
ADDRESS_USD_PER_HOUR = 0.005  # a public IPv4 address
STATES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
# A month of an idle stack with one image for CPUs and one for CUDA: GB, USD a GB.
STORED = {"images": (7, 0.10), "results": (1, 0.023), "logs": (1, 0.03)}
MOST_IMAGES_GB = 20 * 6  # the repository deletes the oldest above 20; one for CUDA has about 6 GB
SECRET_USD_PER_MONTH = 0.40


def usd_per_hour(facts: Sequence[Fact], instance: str, region: str, purchase: str) -> float | None:
    for fact in facts:
        if (fact.provider, fact.instance, fact.region, fact.purchase) == ("aws", instance, region, purchase):
            return fact.usd_per_hour
    return None


def show_changes(changes: Sequence["ResourceChange"], name: str) -> None:
    table = table_of(f"Changes of stack {name}", "action", "name", "type", "replacement")
    for change in sorted(changes, key=lambda change: (change.action, change.kind, change.name)):
        table.add_row(*map(escape, (change.action, change.name, change.kind, change.replacement or "-")))
    console.print(table)
    counts = Counter(change.action for change in changes)
    say(", ".join(f"{count} {action}" for action, count in sorted(counts.items())))


def show_costs(machines: Sequence["MachineType"], parameters: Mapping[str, str], region: str) -> None:
    facts, total, unknown, caps = prices(), 0.0, [], []
    numbers = ("vCPUs", "GPUs", "machines at most", "USD/h each", "USD/h at most")
    table = table_of(f"Queues in {region}, each twice: on demand and spot", "type", *numbers, right=numbers)
    for machine in machines:
        caps.append(int(parameters["MaxGpuVcpus" if machine.gpus else "MaxCpuVcpus"]))
        count, usd = caps[-1] // machine.vcpus, usd_per_hour(facts, machine.name, region, "on-demand")
        most = None if usd is None else count * (usd + DISK_USD_PER_HOUR + ADDRESS_USD_PER_HOUR)
        total += most or 0
        unknown += [machine.name] if usd is None else []
        cells = (machine.vcpus, machine.gpus, count, usd_cell(usd), usd_cell(most))
        table.add_row(machine.name, *map(str, cells))
    console.print(table)
    _show_idle_costs(parameters)
    each = " or ".join(map(str, sorted({*caps})))
    say(
        f"Busy, with every queue full: at most {total:.2f} USD an hour on demand, and at most as much again "
        f"on spot; {2 * len(caps)} queues with a cap of {each} vCPUs each can run {2 * sum(caps)} vCPUs "
        "together. Batch can run one machine more than a cap."
    )
    if unknown:
        say(f"No price in deployments/prices.yaml for {', '.join(unknown)} in {region}: not in these totals.")


def _show_idle_costs(parameters: Mapping[str, str]) -> None:
    costs = {f"{name} {usd * gb:.2f} for {gb} GB": usd * gb for name, (gb, usd) in STORED.items()}
    secrets = [
        name for name in ("PrefectApiKeySecretArn", "PrefectAuthStringSecretArn") if parameters.get(name)
    ]
    if secrets:
        costs[f"secrets {len(secrets) * SECRET_USD_PER_MONTH:.2f}"] = len(secrets) * SECRET_USD_PER_MONTH
    most = sum(costs.values()) + (MOST_IMAGES_GB - STORED["images"][0]) * STORED["images"][1]
    say(
        f"Idle, about {sum(costs.values()):.2f} USD a month ({', '.join(costs)}), nothing by the hour: "
        "no machine runs without a job. With the 20 images that the repository keeps at most, "
        f"about {most:.2f} USD."
    )
    if not parameters.get("BudgetEmail"):
        say("No one gets a message when the month becomes expensive; set an address with --email.")


def show_queues(queues: Sequence["Queue"]) -> None:
    table = table_of("Queues", "queue", "state", "jobs", "vCPUs", right=("vCPUs",))
    for queue in queues:
        state = queue.state if queue.machines == "ENABLED" else f"{queue.state}; machines {queue.machines}"
        jobs = ", ".join(f"{queue.jobs[name]} {name}" for name in STATES if queue.jobs.get(name)) or "-"
        vcpus = f"{queue.desired_vcpus} of {queue.max_vcpus}"
        table.add_row(*map(escape, (queue.name, state, jobs, vcpus)))
    console.print(table)


def show_instances(instances: Sequence["RunningInstance"], region: str) -> None:
    if not instances:
        say("No machine runs: 0 USD an hour.")
        return
    facts, now, total, unknown = prices(), datetime.now(UTC), 0.0, []
    table = table_of(
        "Machines", "id", "type", "zone", "purchase", "minutes", "USD/h", right=("minutes", "USD/h")
    )
    for instance in instances:
        purchase = "spot" if instance.spot else "on-demand"
        usd = usd_per_hour(facts, instance.type, region, purchase)
        if usd is None and instance.spot:  # the on-demand price is an upper bound
            usd = usd_per_hour(facts, instance.type, region, "on-demand")
        total += 0 if usd is None else usd + DISK_USD_PER_HOUR + ADDRESS_USD_PER_HOUR
        unknown += [instance.type] if usd is None else []
        minutes = (now - instance.since).total_seconds() / 60
        table.add_row(instance.id, instance.type, instance.zone, purchase, f"{minutes:.0f}", usd_cell(usd))
    console.print(table)
    missing = f", without {', '.join(sorted(set(unknown)))}, which has no price" if unknown else ""
    say(f"Now: {total:.2f} USD an hour by deployments/prices.yaml, with disk and address{missing}.")
