import subprocess

import pytest

from tests.workloads.harness.probes.test_machine import write
from workloads.harness.probes.code import code_facts, code_hash, git_commit, has_changes


@pytest.fixture
def checkout(tmp_path):
    """A repository with one commit: code in a folder, and a page next to it."""
    write(tmp_path, {"code/fast.py": "x = 1\n", "page.md": "page\n"})
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_uncommitted_changes_of_the_code_mark_its_commit_and_change_its_hash(checkout):
    folder = checkout / "code"
    clean = code_facts(folder, {})
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=checkout, text=True).strip()
    assert clean["commit"] == head and len(clean["code"]) == 12
    (checkout / "page.md").write_text("other\n")
    assert code_facts(folder, {}) == clean
    (folder / "fast.py").write_text("x = 2\n")
    changed = code_facts(folder, {})
    assert changed["commit"] == f"{head}-dirty" and changed["code"] != clean["code"]
    assert code_facts(folder, {"GRIDBENCH_COMMIT": "abc"})["commit"] == "abc"


def test_a_new_file_is_a_change_and_a_missing_git_reports_none(checkout, tmp_path, monkeypatch):
    write(checkout, {"code/slow.py": "y = 1\n"})
    assert has_changes(checkout / "code")
    monkeypatch.setenv("PATH", "/nowhere")
    assert not has_changes(checkout / "code")


def test_the_hash_is_of_names_and_contents(tmp_path):
    write(tmp_path, {"a/one.py": "1", "b/two.py": "1", "c/one.py": "1", "d/notes.txt": "1"})
    one, two, same = (code_hash(tmp_path / name) for name in "abc")
    assert one == same != two and code_hash(tmp_path / "d") is None


class TestCommit:
    ID = "0123456789abcdef0123456789abcdef01234567"

    @pytest.mark.parametrize(
        "files",
        [
            {".git/HEAD": ID + "\n"},
            {".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": ID + "\n"},
            {".git/HEAD": "ref: refs/heads/main\n", ".git/packed-refs": f"# pack\n{ID} refs/heads/main\n"},
            {
                ".git": "gitdir: ../real/worktrees/w\n",
                "../real/worktrees/w/HEAD": "ref: refs/heads/w\n",
                "../real/worktrees/w/commondir": "../..\n",
                "../real/refs/heads/w": ID + "\n",
            },
        ],
    )
    def test_of_a_checkout(self, tmp_path, files):
        code = write(tmp_path / "repo", {**files, "src/code.py": ""}) / "src/code.py"
        assert git_commit(code, {}) == self.ID

    def test_an_image_says_it_itself(self, tmp_path):
        assert git_commit(tmp_path / "code.py", {"GRIDBENCH_COMMIT": "abc"}) == "abc"

    @pytest.mark.parametrize("head", ["ref: refs/heads/new\n", "odd content", "\0", "ref: \0\n", "ref: (\n"])
    def test_a_checkout_without_a_commit_has_no_commit_id(self, tmp_path, head):
        code = write(tmp_path, {".git/HEAD": head, "src/code.py": ""}) / "src/code.py"
        assert git_commit(code, {}) is None
