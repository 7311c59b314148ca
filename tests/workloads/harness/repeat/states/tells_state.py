"""Workloads that write their process's state before the engine changes it."""

import ctypes
import json
import os
import random
import resource
import signal
import sys
from pathlib import Path

import numpy
import torch

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload

PR_GET_PDEATHSIG = 2
OTHER = ("GRIDBENCH_BOX_LOCK_FD", "TORCHINDUCTOR_CACHE_DIR")  # the second is set by torch's compiler


def target(name):
    try:
        return os.readlink(f"/proc/self/fd/{name}").partition(":")[0]
    except OSError:  # the one that reads the folder
        return None


def pdeathsig():
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(number))
    return number.value


def alike():
    """Return facts that are the same in every process."""
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "native_threads_of_torch": [
            name
            for task in os.listdir("/proc/self/task")
            if (name := comm(task)) not in ("python", "monitor")
        ],
        "cudnn": [torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic],
        "precision": torch.get_float32_matmul_precision(),
        "default_dtype": str(torch.get_default_dtype()),
        "grad": torch.is_grad_enabled(),
        "new_generator": torch.Generator().initial_seed(),
        "denormals": float(torch.tensor(1e-40) * 1),
        "cuda_is_open": [torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork()],
        "allocated": torch.cuda.memory_allocated(),
        "files": sorted(filter(None, map(target, os.listdir("/proc/self/fd")))),
        "leads_its_session": os.getsid(0) == os.getpid() == os.getpgid(0),
        "signals": [
            str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
        ],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "limits": [resource.getrlimit(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE)],
        "folder": os.getcwd(),
        "variables": {name: text for name, text in os.environ.items() if name not in OTHER},
        "stdin": os.readlink("/proc/self/fd/0"),
    }


def comm(task):
    return Path(f"/proc/self/task/{task}/comm").read_text().strip()


def drawn():
    """Return values that each process draws for itself."""
    return {
        "torch_seed": torch.default_generator.initial_seed(),
        "torch": torch.rand(1, dtype=torch.float64).item(),
        "numpy": int(numpy.random.randint(2**62)),
        "numpy_generator": numpy.random.default_rng().random(),
        "random": random.random(),
    }


FACTS = {
    "alike": alike(),
    "drawn": drawn(),
    "hash": hash("a text"),
    "parent": os.getppid(),
    "compiler": "torch._dynamo" in sys.modules,
}


def told(env: Env) -> Prepared:
    later = {
        "dies_with_parent": pdeathsig(),
        "oom_score_adj": Path("/proc/self/oom_score_adj").read_text(),
    }
    facts = FACTS | {"alike": FACTS["alike"] | later}
    (Path(os.environ["TEST_NOTE"]) / f"{os.getpid()}.json").write_text(json.dumps(facts))
    x = env.randn(64, 64)
    return Prepared(
        step=lambda: x @ x,
        inputs=(x,),
        reference=lambda: x.double() @ x.double(),
        view=lambda y: y,
        units=1,
        unit="products",
        flops=2 * 64**3,
        bytes=8 * 64**2,
        matmul_flops=2 * 64**3,
    )


@workload(n=(1, 2, 3), tiny={"n": 1})
def tells_state(env, n):
    return told(env)


@workload(has_model=True, n=(1, 2, 3), tiny={"n": 1})
def tells_state_of_a_model(env, n):
    return told(env)
