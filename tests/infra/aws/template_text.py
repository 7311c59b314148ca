"""The template exactly as sent."""

import gzip
import json
from importlib.resources import files

from infra.aws.machines import MachineType
from infra.aws.settings import INSTANCES
from infra.aws.template import body

# EC2's own answer for us-east-1, as moto ships it.
EC2_TYPES = json.loads(gzip.decompress((files("moto.ec2") / "resources/instance_types.json.gz").read_bytes()))


def gpus_of(name):
    return sum(gpu["Count"] for gpu in EC2_TYPES[name].get("GpuInfo", {}).get("Gpus", []))


def machines_of(names):
    return [
        MachineType(name, EC2_TYPES[name]["VCpuInfo"]["DefaultVCpus"], 16384, gpus_of(name)) for name in names
    ]


MACHINES = machines_of(INSTANCES)
TEXT = body("gridbench", MACHINES)
TEMPLATE = json.loads(TEXT)
MANY = machines_of(  # the most that a stack can have
    [f"{family}.{size}xlarge" for family in ("g5", "g6", "m5", "c5") for size in (2, 4, 12, 24)]
    + ["c5.9xlarge", "c5.18xlarge", "m5.8xlarge", "m5.16xlarge", *INSTANCES[:4], "r5.4xlarge"]
)


def of_type(kind):
    found = {name: r["Properties"] for name, r in TEMPLATE["Resources"].items() if r["Type"] == kind}
    assert found
    return found
