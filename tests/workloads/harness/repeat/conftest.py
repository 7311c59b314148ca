import shutil
import sys

import pytest

from workloads.harness.probes.frozen import CODE, MARK


@pytest.fixture
def reference(tmp_path, box_lock):
    """A frozen copy of changed workloads, with this environment's packages."""
    code = tmp_path / "frozen" / "workloads"
    shutil.copytree(CODE, code, ignore=shutil.ignore_patterns("__pycache__"))
    (code / "matmul.py").write_text((code / "matmul.py").read_text() + "# as it was\n")
    (code / MARK).write_text("{}\n")
    path = f"PYTHONPATH={code.parent}"
    return code, ("/usr/bin/env", path, sys.executable, "-P", "-m", "workloads")
