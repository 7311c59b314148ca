"""Faults that cards report.

Fatal are those for which NVIDIA replaces a card: "RMA Policy Thresholds for Row-Remapping" and "… for SRAM
Failure Modes", https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/. XID errors are not:
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from tasks.results.repeats import Repeats

LOWEST = ("gpu_nvlinks_up", "gpu_power_limit_share", "gpu_fabric_state", "gpu_cards")
POLICY = "NVIDIA replaces a card for that (its RMA policy for {})"
FATAL = {
    "gpu_remap_failed": ("has failed to remap a row of memory", "row remapping"),
    "gpu_sram_threshold_exceeded": ("has more faults in its caches than its vendor allows", "SRAM failures"),
}
XID = "gpu_xid_"
XIDS = {  # by NVIDIA's catalogue: the meaning, and the immediate action
    48: ("an uncorrectable memory error", "reset it if XID 63 or 64 follows"),
    54: ("auxiliary power is not connected", "check the cables"),
    63: ("a row of memory was marked for remapping", "none"),
    64: ("a row of memory could not be marked for remapping", "reset it"),
    74: ("an NVLink error", "check links and switches"),
    79: ("it has fallen off the bus", "restart the machine"),
    94: ("a memory error that one program felt", "restart the program"),
    95: ("a memory error that all programs felt", "reset it"),
    119: ("its system processor did not answer", "reset it"),
    120: ("an error of its system processor", "reset it"),
    140: ("a memory error that was not corrected", "reset it"),
}
SLOWED = {
    "gpu_slowed_by_power_brake_share": "the power brake of its machine",
    "gpu_slowed_by_hardware_heat_share": "heat",
}
DRIVER = re.compile(
    r"NVIDIA driver (does not answer within [\d.]{1,9} s|ended the program that asked it, by signal \d{1,3})"
)  # as `workloads/harness/probes/device_here.py` says it
_FABRIC = {1: "has not started", 2: "is still going on"}
_COMPLETED = 3


def reported(cells: Sequence[Repeats]) -> dict[int, dict[str, float]]:
    """Return each card's facts: the lowest of `LOWEST`, else the highest.

    An idle PCIe link slows down, so its best reading counts.
    """
    found: dict[int, dict[str, float]] = {}
    for record in (record for cell in cells for record in cell.records):
        ranks = {rank.rank: rank.probes for rank in record.group.ranks if rank.probes} if record.group else {}
        for number, probes in (ranks or {0: record.probes}).items():
            card = found.setdefault(number, {})
            for name, value in probes.items():
                card[name] = (min if name in LOWEST else max)(card.get(name, value), value)
    return found


def fatal(cards: Mapping[int, Mapping[str, float]]) -> tuple[str, ...]:
    return tuple(
        f"its card{f' {number}' * (len(cards) > 1)} {fault}: {POLICY.format(policy)}"
        for number, facts in sorted(cards.items())
        for name, (fault, policy) in FATAL.items()
        if facts.get(name)
    )


def lost_driver(cells: Sequence[Repeats]) -> tuple[str, ...]:
    if any(cell.usable for cell in cells):
        return ()
    found = (DRIVER.search(reason) for cell in cells for reason in cell.reasons)
    return tuple(f"its {match[0]}" for match in found if match)[:1]


def faults(cards: Mapping[int, Mapping[str, float]], devices: int = 0) -> tuple[str, ...]:
    """Return other faults of cards, of which there must be `devices`; 0 if unknown."""
    first = next((facts for _, facts in sorted(cards.items())), {})
    of_each = (
        f"{f'card {number}: ' * (len(cards) > 1)}{fault}"
        for number, facts in sorted(cards.items())
        for fault in shown(facts)
    )
    return (*missing_cards(first, devices), *of_each)


def shown(facts: Mapping[str, float]) -> Iterator[str]:
    if facts.get("gpu_remap_pending"):
        yield "a row of memory waits for a reset to be remapped"
    if facts.get("gpu_pages_retired_pending"):
        yield "a page of memory waits for a reset to be retired"
    if count := facts.get("gpu_ecc_uncorrected"):
        yield f"{count:.0f} uncorrected memory errors since its driver was loaded"
    yield from _xids(facts)
    for unit, name in (("generation", "gpu_pcie_gen"), ("width", "gpu_pcie_width")):
        now, most = facts.get(name), facts.get(f"{name}_max")
        if now is not None and most is not None and now < most:
            yield f"PCIe {unit} {now:.0f} of {most:.0f}"
    up, links = facts.get("gpu_nvlinks_up"), facts.get("gpu_nvlinks")
    if up is not None and links is not None and up < links:
        yield f"{up:.0f} of {links:.0f} NVLinks up"
    yield from _fabric(facts)
    if (share := facts.get("gpu_power_limit_share", 1.0)) < 1:
        yield f"a power limit of {share:.0%} of the card's default"
    for name, cause in SLOWED.items():
        if slowed := facts.get(name):
            yield f"a clock held down by {cause} in {slowed:.1%} of the samples"


def missing_cards(facts: Mapping[str, float], devices: int) -> Iterator[str]:
    cards, on_bus = facts.get("gpu_cards"), facts.get("gpu_cards_on_bus")
    if cards is None:
        return
    bus = f", and the PCI bus has {on_bus:.0f}" if on_bus is not None else ""
    if cards < devices:
        yield f"{cards:.0f} of its {devices} GPUs{bus}"
    elif on_bus is not None and 1 < cards < on_bus:  # a container is often given one of many
        yield f"{cards:.0f} of the {on_bus:.0f} GPUs on the PCI bus, unless its container was given fewer"


def _xids(facts: Mapping[str, float]) -> Iterator[str]:
    known = {code: facts[f"{XID}{code}"] for code in XIDS if facts.get(f"{XID}{code}")}
    for code, often in known.items():
        what, action = XIDS[code]
        times = f" ({often:.0f} times)" if often > 1 else ""
        yield f"XID {code} in the kernel's log{times}: {what}; NVIDIA's action: {action}"
    if (rest := facts.get("gpu_xid_errors", 0.0) - sum(known.values())) > 0:
        yield f"{rest:.0f} {'other ' if known else ''}XID error{'s' * (rest > 1)} in the kernel's log"


def _fabric(facts: Mapping[str, float]) -> Iterator[str]:
    state, status = facts.get("gpu_fabric_state"), facts.get("gpu_fabric_status")
    if state is not None and state < _COMPLETED:
        yield (
            f"its registration with NVSwitch {_FABRIC.get(int(state), 'is unknown')}: look at nvidia-fabricmanager"
        )
    elif state is not None and status:
        yield f"its registration with NVSwitch ended with NVML's error {status:.0f}: look at nvidia-fabricmanager"
    if facts.get("gpu_fabric_degraded"):
        yield "reduced bandwidth to NVSwitch"
