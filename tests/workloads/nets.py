"""Networks and jobs for tests."""

import torch

from workloads.harness.engine.device import dtype_of
from workloads.harness.prepared import Env

JOBS = {
    "cifar10_job": {"epochs": 1, "samples": 5000, "batch": 32},
    "gcn_job": {"hidden": 16, "epochs": 200},
}


def env(seed=0, precision="fp32"):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    return Env(torch.device("cpu"), dtype_of(precision), "contiguous", generator, lambda t: t, precision)
