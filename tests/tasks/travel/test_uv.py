import os
import select
import subprocess
import sys

import pytest

from tasks.travel import uv

CALL = "from tasks.travel.uv import call_uv; call_uv('pip')"


def test_uv_is_found_in_this_python_or_on_the_path_or_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / "kept"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert uv.find_uv()
    monkeypatch.setitem(sys.modules, "uv", None)  # this Python lacks uv
    assert uv.find_uv() is None
    uv.kept_uv().parent.mkdir(parents=True)
    uv.kept_uv().touch(mode=0o755)
    assert uv.find_uv() == str(uv.kept_uv())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/uv").touch(mode=0o755)
    assert uv.find_uv() == str(tmp_path / "bin/uv")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_uv_ends_with_a_killed_job(tmp_path):
    (tmp_path / "uv.py").write_text(
        "from pathlib import Path\ndef find_uv_bin(): return str(Path(__file__).with_suffix('.sh'))\n"
    )
    (tmp_path / "uv.sh").write_text('#!/bin/sh\nexec 9>"$0.pipe"\nexec sleep 20\n')
    (tmp_path / "uv.sh").chmod(0o755)
    os.mkfifo(tmp_path / "uv.sh.pipe")
    job = subprocess.Popen(
        [sys.executable, "-c", CALL], env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.getcwd()}"}
    )
    with open(tmp_path / "uv.sh.pipe", "rb") as pipe:  # once the installer has opened it
        assert select.select([pipe], [], [], 0) == ([], [], [])
        job.kill()
        job.wait()
        assert select.select([pipe], [], [], 10)[0] and pipe.read() == b""
