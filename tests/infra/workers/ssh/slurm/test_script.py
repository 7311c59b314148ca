import subprocess
from pathlib import Path

from infra.workers.ssh.slurm import box

SCRIPT = Path(box.__file__).with_name("slurm.sh")


def test_the_lines_of_a_job_end_with_it(tmp_path):
    """An ended child of `tail` is a zombie, for which `tail` waits for ever."""
    (tmp_path / "begun").touch()
    log = tmp_path / "log"
    log.write_text("one\n")
    command = ["sh", SCRIPT, "lines", str(tmp_path), "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lines:
        try:
            assert lines.stdout.readline() == "e\n"  # while it runs
            with log.open("a") as more:
                more.write("two")
            (tmp_path / "exit").write_text("0 false\n")
            assert lines.communicate(timeout=20)[0] == "two"
        finally:
            lines.kill()
    assert lines.returncode == 0
