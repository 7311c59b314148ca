import shutil
import subprocess
import sys

import pytest

from workloads.harness.group.meeting import GLOO, no_meeting

ASK = "from workloads.harness.group.meeting import no_meeting; print(no_meeting('cpu', {}))"


def test_a_machine_with_a_loopback_interface_has_a_meeting_place():
    assert no_meeting("cpu", {}) is None
    assert no_meeting("cpu", {GLOO: "lo"}) is None


def test_an_interface_of_another_machine_is_named_for_gloo_alone():
    assert "eth9" in no_meeting("cpu", {GLOO: "lo,eth9"})
    assert no_meeting("cuda", {GLOO: "eth9"}) is None


def test_a_network_without_a_loopback_interface_is_named():
    words = ["unshare", "-n"]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("this user can't make a network namespace")
    found = subprocess.run([*words, sys.executable, "-c", ASK], capture_output=True, text=True)
    assert "localhost" in found.stdout and "unreachable" in found.stdout, found.stderr
