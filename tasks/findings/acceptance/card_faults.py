"""The card's own report of faults, from its records: reasons to return the machine, and faults that are shown.

Fatal is only what NVIDIA replaces a card for: "RMA Policy Thresholds for Row-Remapping", NVIDIA GPU Memory Error
Management, https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/.
"""

from collections.abc import Iterator, Mapping, Sequence

from tasks.results.repeats import Repeats

LOWEST = ("gpu_nvlinks_up", "gpu_power_limit_share")
POLICY = "NVIDIA replaces a card for that (its RMA policy for row remapping)"


def reported(cells: Sequence[Repeats]) -> dict[str, float]:
    """Return one reading of each fact over all records of a machine: the lowest of `LOWEST`, else the highest.

    A PCIe link slows down while it is idle, so that its best reading counts.
    """
    found: dict[str, float] = {}
    for record in (record for cell in cells for record in cell.records):
        for name, value in record.probes.items():
            found[name] = (min if name in LOWEST else max)(found.get(name, value), value)
    return found


def fatal(facts: Mapping[str, float]) -> tuple[str, ...]:
    """Return what NVIDIA calls a reason to replace the card."""
    return (
        (f"its card has failed to remap a row of memory: {POLICY}",) if facts.get("gpu_remap_failed") else ()
    )


def shown(facts: Mapping[str, float]) -> Iterator[str]:
    """Yield the other faults, a clause for each; they do not decide, because their cause can be elsewhere."""
    if facts.get("gpu_remap_pending"):
        yield "a row of memory waits for a reset to be remapped"
    if count := facts.get("gpu_ecc_uncorrected"):
        yield f"{count:.0f} uncorrected memory errors since its driver was loaded"
    if count := facts.get("gpu_xid_errors"):
        yield f"{count:.0f} XID errors in the kernel's log"
    for unit, name in (("generation", "gpu_pcie_gen"), ("width", "gpu_pcie_width")):
        now, most = facts.get(name), facts.get(f"{name}_max")
        if now is not None and most is not None and now < most:
            yield f"PCIe {unit} {now:.0f} of {most:.0f}"
    up, links = facts.get("gpu_nvlinks_up"), facts.get("gpu_nvlinks")
    if up is not None and links is not None and up < links:
        yield f"{up:.0f} of {links:.0f} NVLinks up"
    if (share := facts.get("gpu_power_limit_share", 1.0)) < 1:
        yield f"a power limit of {share:.0%} of the card's default"
