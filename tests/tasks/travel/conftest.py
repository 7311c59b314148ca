import subprocess

import pytest


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def code(tmp_path):
    """A script with files that belong to it and others, in a folder without git."""
    folder = tmp_path / "code"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("import lib.net\n")
    (folder / "lib" / "net.py").write_text("WIDTH = 8\n")
    (folder / "lib" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "lib" / "run.sh").chmod(0o755)
    (folder / ".gitignore").write_text("data/\n*.pt\n")
    for name in ("data/big.bin", "lib/__pycache__/net.pyc", ".venv/bin/python", "last.pt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("nothing of it")
    return folder


@pytest.fixture
def repository(code):
    git(code, "init", "--quiet")
    git(code, "add", ".gitignore", "train.py", "lib/net.py", "lib/run.sh")
    git(code, "commit", "--quiet", "-m", "all")
    return code
