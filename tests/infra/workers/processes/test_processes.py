import os
import subprocess
import sys

import pytest

from infra.workers.processes.processes import MARK, members, oom_kills, parents, running, variables

CGROUPS = {
    "v2": ("0::/user.slice\n", "user.slice/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n"),
    "v1": ("5:memory:/a\n4:cpu,cpuacct:/\n", "memory/a/memory.oom_control", "under_oom 0\noom_kill 2\n"),
}


@pytest.mark.parametrize("version", CGROUPS)
def test_kills_for_memory_are_counted_for_us_and_for_the_machine(tmp_path, version):
    ours, file, text = CGROUPS[version]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(ours)
    assert oom_kills(tmp_path) == (0, 0), "nobody says anything"
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 1\noom_kill 7\n")
    path = tmp_path / "sys/fs/cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert oom_kills(tmp_path) == (2, 7)


def test_a_tree_is_found_by_its_mark_and_by_who_began_it():
    name = f"job-{os.getpid()}"
    child = "import subprocess; subprocess.run(['sleep', '600'], env={})"
    with subprocess.Popen([sys.executable, "-c", child], env=os.environ | {MARK: name}) as marked:
        while len(found := members(name)) < 2:
            assert marked.poll() is None
        assert marked.pid in found and name in running()
        (hidden,) = found - {marked.pid}
        assert parents()[hidden] == marked.pid
        assert members(name, root=marked.pid) == {hidden} and members("another") == set()
        os.kill(hidden, 9)
    assert members(name) == set() and name not in running()


def test_lines_of_variables_are_read_as_they_are():
    assert variables([b"A=b=c", b"", b"C=d e\xff"]) == {"A": "b=c", "C": "d e\udcff"}
