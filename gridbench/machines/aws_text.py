"""How the AWS stack is shown: tables of changes, of queues, of what they cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from gridbench.terminal import console, say, table_of
from tasks.planning import hardware
from tasks.pricing.facts import Fact, load_facts

if TYPE_CHECKING:  # boto3 behind them is slow to import, and other commands need it not
    from infra.aws.machines import MachineType
    from infra.aws.stack import ResourceChange
    from infra.aws.state import Queue, RunningInstance

# List prices of us-east-1, from aws.amazon.com/<ebs, vpc, s3, ecr, cloudwatch>/pricing.
DISK_USD_PER_HOUR = 100 * 0.08 / 730  # 100 GB of gp3 at 0.08 USD a GB-month
ADDRESS_USD_PER_HOUR = 0.005  # a public IPv4 address
STATES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
STORAGE = "storage only: S3 0.023, ECR 0.10, CloudWatch logs 0.03 USD a GB and month"
IDLE = f"Idle it costs nothing by the hour: no machine runs without a job ({STORAGE})."


def usd_per_hour(facts: Sequence[Fact], instance: str, region: str, purchase: str) -> float | None:
    """What an instance costs by the snapshot of prices; None where it has no price."""
    for fact in facts:
        if (fact.provider, fact.instance, fact.region, fact.purchase) == ("aws", instance, region, purchase):
            return fact.usd_per_hour
    return None


def prices() -> tuple[Fact, ...]:
    """The snapshot of prices."""
    return load_facts(hardware.DEPLOYMENTS)


def show_changes(changes: Sequence["ResourceChange"], name: str) -> None:
    """What a change set would do, a line each, and the sum by action."""
    table = table_of(f"What would change in stack {name}", "action", "name", "type", "replacement")
    for change in sorted(changes, key=lambda change: (change.action, change.kind, change.name)):
        table.add_row(*map(escape, (change.action, change.name, change.kind, change.replacement or "-")))
    console.print(table)
    counts = Counter(change.action for change in changes)
    say(", ".join(f"{count} {action}" for action, count in sorted(counts.items())))


def show_costs(machines: Sequence["MachineType"], parameters: Mapping[str, str], region: str) -> None:
    """What each queue may cost at most, and what it costs when nothing runs."""
    facts, total, unknown = prices(), 0.0, []
    numbers = ("vCPUs", "GPUs", "machines at most", "USD/h each", "USD/h at most")
    table = table_of(f"Queues in {region}, each twice: on demand and spot", "type", *numbers, right=numbers)
    for machine in machines:
        cap = int(parameters["MaxGpuVcpus" if machine.gpus else "MaxCpuVcpus"])
        count, usd = cap // machine.vcpus, usd_per_hour(facts, machine.name, region, "on-demand")
        most = None if usd is None else count * (usd + DISK_USD_PER_HOUR + ADDRESS_USD_PER_HOUR)
        total += most or 0
        unknown += [machine.name] if usd is None else []
        cells = (machine.vcpus, machine.gpus, count, _usd(usd), _usd(most))
        table.add_row(machine.name, *map(str, cells))
    console.print(table)
    say(IDLE)
    say(
        f"Busy, with every queue full: at most {total:.2f} USD an hour on demand, and at most as much again "
        "on spot; Batch may run one machine more than a cap."
    )
    if unknown:
        say(f"No price in deployments/prices.yaml for {', '.join(unknown)} in {region}: not in these sums.")


def _usd(amount: float | None) -> str:
    return "?" if amount is None else f"{amount:.3f}"


def show_queues(queues: Sequence["Queue"]) -> None:
    """Each queue with its jobs, and what ails its machines."""
    table = table_of("Queues", "queue", "state", "jobs", "vCPUs", right=("vCPUs",))
    for queue in queues:
        state = queue.state if queue.machines == "ENABLED" else f"{queue.state}; machines {queue.machines}"
        jobs = ", ".join(f"{queue.jobs[name]} {name}" for name in STATES if queue.jobs.get(name)) or "-"
        vcpus = f"{queue.desired_vcpus} of {queue.max_vcpus}"
        table.add_row(*map(escape, (queue.name, state, jobs, vcpus)))
    console.print(table)


def show_instances(instances: Sequence["RunningInstance"], region: str) -> None:
    """Machines that run, what they cost by the hour now, and since when."""
    if not instances:
        say("No machine runs: 0 USD an hour.")
        return
    facts, now, total, unknown = prices(), datetime.now(UTC), 0.0, []
    table = table_of(
        "Machines", "id", "type", "zone", "purchase", "minutes", "USD/h", right=("minutes", "USD/h")
    )
    for each in instances:
        purchase = "spot" if each.spot else "on-demand"
        usd = usd_per_hour(facts, each.type, region, purchase)
        if usd is None and each.spot:  # spot is never dearer by much: an upper bound
            usd = usd_per_hour(facts, each.type, region, "on-demand")
        total += 0 if usd is None else usd + DISK_USD_PER_HOUR + ADDRESS_USD_PER_HOUR
        unknown += [each.type] if usd is None else []
        minutes = (now - each.since).total_seconds() / 60
        table.add_row(each.id, each.type, each.zone, purchase, f"{minutes:.0f}", _usd(usd))
    console.print(table)
    missing = f", without {', '.join(sorted(set(unknown)))}, which has no price" if unknown else ""
    say(f"Now: {total:.2f} USD an hour by deployments/prices.yaml, with disk and address{missing}.")
