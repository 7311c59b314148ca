"""ResourceQuota: limits of a namespace."""

from decimal import Decimal

from tests.emulators.kube.api_server.objects import KINDS, Obj, Refused, finished
from tests.emulators.kube.api_server.quantities import quantity, shown, total
from tests.emulators.kube.api_server.store import Store

NATIVE = {"cpu", "memory", "ephemeral-storage"}


def usage(plural: str, obj: Obj, counted: set[str]) -> dict[str, Decimal]:
    amounts = {f"count/{KINDS[plural].full}": Decimal(1)}
    if plural == "pods":
        amounts["pods"] = Decimal(1)
        for name, amount in total(obj, "requests").items():
            amounts[f"requests.{name}"] = amount
            if name in NATIVE:
                amounts[name] = amount
        for name, amount in total(obj, "limits").items():
            if name in NATIVE:
                amounts[f"limits.{name}"] = amount
    return {name: amount for name, amount in amounts.items() if name in counted}


def used(store: Store, quota: Obj) -> dict[str, Decimal]:
    counted = set(quota["spec"].get("hard") or {})
    sums = dict.fromkeys(counted, Decimal(0))
    for plural in ("pods", "jobs"):
        for obj in store.all(plural, quota["metadata"]["namespace"]):
            if plural == "pods" and finished(obj):
                continue
            for name, amount in usage(plural, obj, counted).items():
                sums[name] += amount
    return sums


def charge(store: Store, plural: str, obj: Obj) -> None:
    """Raise 403 with the server's text if a quota has no room for the object."""
    kind, metadata = KINDS[plural], obj["metadata"]
    for quota in store.all("resourcequotas", metadata["namespace"]):
        hard, name = quota["spec"].get("hard") or {}, quota["metadata"]["name"]
        if reason := refusal(store, quota, plural, obj, hard):
            text = f'{kind.full} "{metadata["name"]}" is forbidden: {reason.format(quota=name)}'
            raise Refused(403, "Forbidden", text, name=metadata["name"], kind=plural)


def refusal(store: Store, quota: Obj, plural: str, obj: Obj, hard: dict[str, str]) -> str | None:
    wanted = usage(plural, obj, set(hard))
    if plural == "pods" and (missing := unspecified(obj, hard)):
        return "failed quota: {quota}: must specify " + missing
    taken = used(store, quota)
    over = sorted(name for name, amount in wanted.items() if taken[name] + amount > quantity(hard[name]))
    if not over:
        return None

    def listed(amounts: dict[str, Decimal]) -> str:
        return ",".join(f"{name}={shown(amounts[name], hard[name])}" for name in over)

    limits = {name: quantity(hard[name]) for name in over}
    parts = f"requested: {listed(wanted)}, used: {listed(taken)}, limited: {listed(limits)}"
    return "exceeded quota: {quota}, " + parts


def unspecified(pod: Obj, hard: dict[str, str]) -> str:
    """Return counted resources that a container leaves open, in the server's order."""
    missing: dict[str, list[str]] = {}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        for name in sorted(hard):
            which, _, resource = (
                name.rpartition(".") if name.startswith(("requests.", "limits.")) else ("", "", name)
            )
            if resource in NATIVE and resource not in (resources.get(which or "requests") or {}):
                missing.setdefault(name, []).append(container["name"])
    return "; ".join(f"{name} for: {','.join(names)}" for name, names in missing.items())


def refresh(store: Store, namespace: str) -> None:
    for quota in store.all("resourcequotas", namespace):
        hard = quota["spec"].get("hard") or {}
        taken = {name: shown(amount, hard[name]) for name, amount in used(store, quota).items()}
        key = (namespace, quota["metadata"]["name"])
        store.update(
            "resourcequotas", key, lambda obj, t=taken, h=hard: obj.update(status={"hard": h, "used": t})
        )
