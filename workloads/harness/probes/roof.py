"""The last measured roof of this box, cached and read into each record."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from workloads.harness.probes import machine
from workloads.harness.probes.asked_gpu import AskedGpu
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_whole
from workloads.harness.records.places import user_cache

FOLDER = "GRIDBENCH_ROOF"  # the environment variable that names another folder
SIZES, RATES = "sizes", "rates"  # of the fastest products by precision and side; of all that was measured


@cache
def facts_here(device: str) -> Mapping[str, Any]:
    if device != "cuda":
        return machine.fingerprint()
    card = AskedGpu()
    described = card.describe()
    card.close()
    return machine.fingerprint(gpus=[described])


def roof_path(facts: Mapping[str, Any], device: str, threads: int) -> Path:
    cards = [card.get("uuid") for card in facts.get("gpus") or ()]
    box = [machine.environment_id(facts), facts.get("hostname"), cards, facts.get("variables")]
    name = hashlib.sha256(json.dumps([*box, device, threads], sort_keys=True).encode()).hexdigest()[:16]
    return _folder() / f"{name}.json"


def kept_roof(path: Path) -> dict[str, Any]:
    kept: Any = None
    with suppress(OSError, ValueError):
        kept = json.loads(path.read_text())
    if not isinstance(kept, dict) or not isinstance(kept.get(SIZES), dict):
        kept = {}
    return {SIZES: kept.get(SIZES, {}), RATES: kept.get(RATES, [])}


def keep_roof(path: Path, kept: Mapping[str, Any]) -> None:
    with suppress(WorkloadsError):
        write_whole(path, json.dumps(kept, allow_nan=False, indent=1).encode())


def _folder() -> Path:
    if named := os.environ.get(FOLDER):
        return Path(named)
    return user_cache() / "roof"
