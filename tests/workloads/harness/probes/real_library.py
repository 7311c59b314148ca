"""A shared library in place of the driver's, compiled from nvml.c: it answers, hangs, or kills its caller."""

import shutil
import subprocess
from pathlib import Path

import pytest

from workloads.harness.probes import asked_gpu


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    if not shutil.which("gcc"):
        pytest.skip("the library is compiled with gcc")
    folder, source = tmp_path_factory.mktemp("nvml"), Path(__file__).with_name("nvml.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", folder / "libnvidia-ml.so.1", source], check=True)
    return folder


@pytest.fixture
def real_driver(library, monkeypatch):
    """Make each child load the library; return a function that sets its fault."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def fail(fault):
        monkeypatch.setenv("NVML_FAKE", fault)
        if "hang" in fault:
            monkeypatch.setattr(asked_gpu, "OPEN_S" if "init" in fault else "ANSWER_S", 2.0)

    return fail
