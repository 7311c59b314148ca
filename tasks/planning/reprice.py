"""New prices for an old run."""

from dataclasses import replace

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware, load_hardware
from tasks.planning.plan import Plan
from tasks.pricing.checks import usd_text
from tasks.pricing.price import Price
from tasks.results.model import Machine


def at_new_prices(plan: Plan) -> tuple[list[Machine], list[str]]:
    """Return machines at today's prices, and a sentence about each.

    Without a correct file a machine keeps its price.
    """
    machines, sentences = [], []
    for hardware, machine in zip(plan.hardware, plan.machines, strict=True):
        now, sentence = price_today(hardware)
        machines.append(
            replace(
                machine,
                usd_per_hour=now.usd_per_hour,
                price_note=now.note,
                price_flags=now.flags,
                spot_usd_per_hour=now.spot_usd_per_hour,
            )
        )
        sentences.append(sentence)
    return machines, sentences


def price_today(hardware: Hardware) -> tuple[Price, str]:
    """Return today's, else the plan's, and a sentence about both."""
    was = hardware.price
    try:
        now = load_hardware(hardware.shape or hardware.name).price
    except GridbenchError as error:
        return was, f"{hardware.name} stays at {usd_text(was.usd_per_hour)} USD/h of the plan: {error}."
    return now, (
        f"{hardware.name} is counted at {usd_text(now.usd_per_hour)} USD/h of {now.date}, "
        f"not at the plan's {usd_text(was.usd_per_hour)} of {was.date}."
    )
