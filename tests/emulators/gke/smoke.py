"""Send GKE requests to refuse and make a cluster, to compare the emulator with it.

    python -m tests.emulators.gke.smoke --zone us-central1-a --yes

Makes one cluster with one small node and a GPU pool of no nodes, sends requests that should be refused,
writes GKE's answers as JSON, and prints differences from the emulator. It stops at a limit of minutes and
USD, and always deletes its clusters.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from infra.gke.api import connect
from infra.gke.clusters import find
from infra.gke.errors import GkeError
from infra.gke.settings import ClusterOptions, check
from tests.emulators.gke.smoke_cases import NAME, gpu_pool
from tests.emulators.gke.smoke_run import USD_PER_HOUR, LimitReached, Meter, Smoke
from tests.emulators.smoke_command import exit_code, tell, undisturbed


def run(arguments: argparse.Namespace) -> int:
    """Return the exit code: 0 as believed, 1 if something differs or was not seen."""
    wishes = ClusterOptions(NAME, arguments.zone, (arguments.accelerator,), network=arguments.network)
    check(wishes)
    gpu_pool(wishes)
    location = connect(arguments.project, arguments.zone)
    if find(location, NAME):
        raise GkeError(
            f"there is a cluster {NAME} already: `gridbench down gke --cluster {NAME} --zone {arguments.zone}`"
        )
    if not arguments.yes:
        raise GkeError(
            f"this makes a cluster in {arguments.zone} of project {location.project} at about {USD_PER_HOUR} USD an "
            f"hour, for at most {arguments.max_minutes:g} minutes and {arguments.max_usd:g} USD, and deletes it: "
            "say --yes to do it"
        )
    smoke = Smoke(location, wishes, Meter(arguments.max_minutes, arguments.max_usd))
    stopped = None
    try:
        smoke.observe()
    except (LimitReached, GkeError) as error:
        stopped = str(error)
    finally:
        try:
            undisturbed(smoke.clean_up)
        finally:
            _write(arguments.out, smoke, stopped)
    for sentence in ([f"stopped early: {stopped}"] if stopped else []) + smoke.different:
        tell(sentence)
    return 1 if smoke.different or stopped else 0


def _write(out: Path, smoke: Smoke, stopped: str | None) -> None:
    head = {"zone": smoke.location.zone, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    taken = {"minutes": round(smoke.meter.minutes, 1), "usd": round(smoke.meter.usd, 6), "stopped": stopped}
    facts = {name: seen for name, (seen, _) in smoke.facts.items()}
    out.write_text(json.dumps(head | taken | {"answers": smoke.seen, "facts": facts}, indent=2) + "\n")
    tell(f"{out} has what GKE said; about {smoke.meter.usd:.3f} USD")


def parser() -> argparse.ArgumentParser:
    wanted = argparse.ArgumentParser(prog="python -m tests.emulators.gke.smoke", description=__doc__)
    wanted.add_argument("--zone", required=True)
    wanted.add_argument("--project")
    wanted.add_argument("--network", default="", help="the one called default by default")
    wanted.add_argument("--accelerator", default="nvidia-tesla-t4", help="one that the zone has")
    wanted.add_argument("--max-minutes", type=float, default=45)
    wanted.add_argument("--max-usd", type=float, default=0.5)
    wanted.add_argument("--out", type=Path, default=Path("gke-smoke.json"))
    wanted.add_argument("--yes", action="store_true", help="make the cluster")
    return wanted


def main(words: Sequence[str] | None = None) -> int:
    return exit_code(lambda: run(parser().parse_args(words)), GkeError)


if __name__ == "__main__":
    sys.exit(main())
