"""The script on a login node: what needs no Slurm."""

import os
import subprocess
from pathlib import Path

from infra.workers.ssh.slurm import box

SCRIPT = Path(box.__file__).with_name("slurm.sh")


def test_the_lines_of_a_job_end_with_it(tmp_path):
    """A child of `tail` that has ended is a zombie, for which `tail` waits for ever."""
    (tmp_path / "begun").touch()
    (tmp_path / "log").write_text("one\ntwo")
    (tmp_path / "exit").write_text("0 false\n")
    command = ["sh", SCRIPT, "lines", str(tmp_path), "2"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=20)
    assert (done.returncode, done.stdout) == (0, "e\ntwo")
