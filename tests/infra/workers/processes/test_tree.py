import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from infra.workers.brand import BRAND
from infra.workers.processes.bundle import bundle
from infra.workers.processes.processes import members

ESCAPES = (
    "(env -i setsid sleep 600 &) ; (setsid sh -c 'sleep 600' &) ; "  # one hides its mark, one its parent
)
HOURS_S = 10**4


@pytest.fixture
def place(tmp_path):
    name, content = bundle()
    (tmp_path / name).write_bytes(content)
    yield Place(tmp_path, tmp_path / name)
    for folder in tmp_path.glob("job-*"):
        for pid in members(folder.name):
            with suppress(ProcessLookupError):  # it can have ended just now
                os.kill(pid, signal.SIGKILL)


class Place:
    def __init__(self, folder: Path, program: Path) -> None:
        self.folder, self.program = folder, program
        self.job = folder / f"job-{folder.parent.name}-{folder.name}"

    def words(self, *words):
        return [sys.executable, self.program, *map(str, words)]

    def call(self, *words, **further):
        return subprocess.run(self.words(*words), capture_output=True, text=True, timeout=60, **further)

    def hold(self, script, *options, **further):
        return self.call("hold", *options, self.job, "sh", "-c", script, **further)

    def begin(self, script, *options):
        self.job.mkdir(mode=0o700)
        assert self.call("run", *options, self.job, "sh", "-c", script).returncode == 0
        return int((self.job / "root").read_text())

    def exit(self):
        return (self.job / "exit").read_text().split()

    def log(self):
        return (self.job / "log").read_text()

    def until_printed(self, text):
        until = time.monotonic() + 30
        while text not in self.log():
            assert time.monotonic() < until, self.log()
            time.sleep(0.02)


def test_a_command_runs_as_in_a_container_and_leaves_nothing(place, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/of/the/user")
    (place.folder / "env").write_text("A=it's; `b` = c\nPREFECT_API_URL=http://x\n")
    (place.folder / "bin").mkdir()
    script = (
        'echo "$A $PREFECT_API_URL $PYTHONPATH ${PATH%%:*} $PWD"; echo x >$TMPDIR/file; echo $TMPDIR; exit 3'
    )
    options = ("--env-file", place.folder / "env", "--code", place.folder, "--bin", place.folder / "bin")
    assert place.hold(ESCAPES + script, *options).returncode == 3
    lines = place.log().splitlines()
    # A shell can print how its child was killed before it is killed itself.
    printed = [line for line in lines if line not in ("Killed", "Terminated")]
    assert len(printed) == 2, lines
    said, temporary = printed
    where = place.folder
    assert said == f"it's; `b` = c http://x {where} {where}/bin {where}"
    assert place.exit() == ["3", "false"] and members(place.job.name) == set()
    assert not Path(temporary).exists() and not (place.job / "tmp").is_symlink()
    assert place.job.stat().st_mode & 0o777 == 0o700


def test_a_command_finds_programs_next_to_the_trees_python_first(place):
    (place.folder / "bin").mkdir()
    python = place.folder / "bin/python"
    python.symlink_to(Path(sys.executable).resolve())
    words = [python, place.program, "hold", place.job, "sh", "-c", "command -v python"]
    assert subprocess.run(words, timeout=60).returncode == 0
    assert place.log().strip() == str(python)


@pytest.mark.parametrize(
    ("script", "code"), [("kill -9 $$", 137), ("exec nothing-of-this-name", 127), ("kill -15 $$", 143)]
)
def test_how_a_command_ended_is_the_roots_own_exit_code(place, script, code):
    assert place.hold(script).returncode == code
    assert place.exit() == [str(code), "false"]


def test_a_command_that_is_not_there_is_reported(place):
    assert place.call("hold", place.job, "/no/such/program").returncode == 126
    assert "The job can't be started" in place.log() and place.exit() == ["126", "false"]


def test_the_time_limit_ends_the_tree_even_after_its_root_has_gone(place):
    assert place.hold(ESCAPES + "echo on; sleep 600", "--limit-s", "0.5").returncode == 143
    assert (place.job / "late").exists() and members(place.job.name) == set()


def test_a_polite_request_comes_first_and_goes_to_children_too(place):
    root = place.begin("trap 'echo asked; exit 5' TERM; echo on; while :; do sleep 600; done")
    place.until_printed("on")
    assert place.call("ps", "-q", "--filter", f"name=^{place.job.name}$").stdout.split() == [place.job.name]
    os.kill(root, signal.SIGTERM)
    assert place.call("logs", "-f", place.job.name).returncode == 0
    first, *_, last = place.log().split()  # a shell can report that its child was ended
    assert (first, last) == ("on", "asked")
    assert place.call("inspect", "-f", "", place.job.name).stdout.split() == ["5", "false"]
    assert place.call("ps", "-q", "--filter", f"name=^{place.job.name}$").stdout.split() == []


def test_a_tree_that_does_not_listen_is_killed_whole(place):
    place.begin(ESCAPES + "trap '' TERM; echo on; while :; do sleep 600; done")
    place.until_printed("on")
    assert place.call("stop", "-t", "0.2", place.job.name).returncode == 0
    assert members(place.job.name) == set() and place.exit() == ["137", "false"]


def test_processes_of_a_killed_root_are_ended_and_the_job_counts_as_killed(place):
    root = place.begin("(setsid sh -c 'sleep 600' &) ; echo $TMPDIR; sleep 600")
    place.until_printed(f"{BRAND.name}-")
    os.kill(root, signal.SIGKILL)
    assert place.call("logs", "-f", place.job.name).returncode == 0
    assert members(place.job.name) == set()
    assert place.call("inspect", "-f", "", place.job.name).stdout.split() == ["137", "false"]
    assert not Path(place.log().strip()).exists()


def test_a_log_that_finds_no_room_changes_nothing_of_the_end(place):
    """A limit of the file size fails writes like a full disk."""

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    assert place.hold("seq 1 100000; exit 3", preexec_fn=small).returncode == 3
    assert place.exit() == ["3", "false"] and len(place.log()) <= 1000


def test_the_program_has_the_same_name_as_long_as_it_has_the_same_content():
    name, content = bundle()
    bundle.cache_clear()
    assert bundle() == (name, content)


def test_a_proxy_of_the_machine_is_not_asked_for_the_jobs_own_api(place, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "example.com")
    place.hold('echo "$NO_PROXY $no_proxy"')
    assert place.log().split() == ["example.com,127.0.0.1,localhost"] * 2
