import sys
from pathlib import Path

import pytest

from tasks.errors import GridbenchError
from tasks.travel.requirements import is_the_machines, packages_file, wanted

HERE = {"torch": "2.13.0+cu130", "numpy": "2.4.0"}
PYTHON = Path(sys.executable)
REQUIREMENTS = """
# what it needs
--index-url https://example.org/simple
--trusted-host example.org
-r more/base.txt
-c limits.txt
torch>=2.0 ; python_version > "3"
torch==2.13.0
numpy
timm[extra]==1.0.9 \\
    --hash=sha256:aaaa \\
    --hash=sha256:bbbb
einops==0.8  # why not
nvidia-cudnn-cu12==9.1
nvidia-ml-py
.
-e .
git-package @ git+https://example.org/x.git
"""
PART = """
[[package]]
name = "part"
version = "1"
source = { editable = "more" }
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("tqdm\n-c ../limits.txt\n")
    (tmp_path / "limits.txt").write_text("numpy<2\npillow<12\n")
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    return tmp_path


def test_a_requirements_file_with_all_that_people_write(folder):
    asked = wanted(folder, "requirements.txt", HERE, PYTHON)
    assert asked.lines == (
        "tqdm",
        "timm[extra]==1.0.9",
        "einops==0.8",
        "nvidia-ml-py",
        "git-package @ git+https://example.org/x.git",
    )
    assert set(asked.constraints) == {"pillow<12"}
    assert asked.hashes == {"timm": ("sha256:aaaa", "sha256:bbbb")} and not asked.all_hashed
    assert asked.hashes_of("timm==1.0.9") == asked.hashes["timm"] and asked.hashes_of("tqdm==4") == ()
    assert asked.options == ("--index-url https://example.org/simple",)
    assert asked.notes == (
        "requirements.txt asks for torch>=2.0, and this machine's torch 2.13.0+cu130 is used",
        "requirements.txt asks for nvidia-cudnn-cu12==9.1, which is not installed: "
        "nvidia-cudnn-cu12 is the machine's own matter",
    )


def test_the_dependencies_of_a_project(folder):
    text = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["torch", "einops>=0.7"]\n'
    (folder / "pyproject.toml").write_text(text)
    assert wanted(folder, "pyproject.toml", HERE, PYTHON).lines == ("einops>=0.7",)
    (folder / "pyproject.toml").write_text('[project]\nname = "mine"\ndynamic = ["dependencies"]\n')
    with pytest.raises(GridbenchError, match=r"only when it is built; name them in requirements\.txt"):
        wanted(folder, "pyproject.toml", HERE, PYTHON)


def test_nested_brackets_in_a_project_are_one_sentence(folder):
    (folder / "pyproject.toml").write_text("a = " + "[" * 10_000)
    with pytest.raises(GridbenchError, match=r"pyproject\.toml can't be read"):
        wanted(folder, "pyproject.toml", HERE, PYTHON)


def test_hashes_can_be_asked_of_all(folder):
    (folder / "requirements.txt").write_text(
        "--require-hashes\ntorch==2.13.0 --hash=sha256:cccc\ntqdm==4.1 --hash=sha256:dddd\n"
    )
    asked = wanted(folder, "requirements.txt", HERE, PYTHON)
    assert asked.all_hashed and asked.hashes == {"tqdm": ("sha256:dddd",)}
    assert asked.lines == ("tqdm==4.1",) and asked.options == ()


def test_a_project_whose_packages_come_from_elsewhere_is_refused_but_for_torch(folder):
    project = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["torch", "My_Part>=1", "einops"]\n'
    sources = '[tool.uv.sources]\ntorch = { index = "pytorch" }\n'
    (folder / "pyproject.toml").write_text(project + sources)
    assert wanted(folder, "pyproject.toml", HERE, PYTHON).lines == ("My_Part>=1", "einops")
    (folder / "pyproject.toml").write_text(f'{project}{sources}my-part = {{ path = "part" }}\n')
    with pytest.raises(
        GridbenchError, match=r"takes my-part from \[tool\.uv\.sources\].*`uv lock` and give uv\.lock"
    ):
        wanted(folder, "pyproject.toml", HERE, PYTHON)


def test_the_variables_that_it_names(folder):
    (folder / "requirements.txt").write_text("-i https://${USER}:${MY_TOKEN}@example.org/simple\ntqdm\n")
    assert wanted(folder, "requirements.txt", HERE, PYTHON).variables == {"USER", "MY_TOKEN"}


def test_a_lock_is_read_by_uv(folder):
    project = (
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["gb-leaf"]\n'
    )
    (folder / "pyproject.toml").write_text(project)
    lock = (
        'version = 1\nrevision = 3\nrequires-python = ">=3.11"\n\n'
        '[[package]]\nname = "gb-leaf"\nversion = "1.5"\nsource = { registry = "https://example.org/simple" }\n'
        'wheels = [{ url = "https://example.org/gb_leaf-1.5-py3-none-any.whl", hash = "sha256:'
        + "0"
        * 64
        + '" }]\n\n[[package]]\nname = "mine"\nversion = "1"\nsource = { virtual = "." }\n'
        'dependencies = [{ name = "gb-leaf" }]\n'
    )
    (folder / "uv.lock").write_text(lock)
    asked = wanted(folder, "uv.lock", HERE, PYTHON)
    assert asked.lines == ("gb-leaf==1.5",) and asked.hashes == {"gb-leaf": (f"sha256:{'0' * 64}",)}
    leaf = '[{ name = "gb-leaf" }'
    (folder / "uv.lock").write_text(lock.replace(leaf, f'{leaf}, {{ name = "part" }}') + PART)
    (folder / "pyproject.toml").write_text(project + '[tool.uv.workspace]\nmembers = ["more"]\n')
    (folder / "more" / "pyproject.toml").write_text(project.replace("mine", "part"))
    with pytest.raises(GridbenchError, match=r"uv\.lock asks for '-e \./more', which has no name"):
        wanted(folder, "uv.lock", HERE, PYTHON)


def test_the_most_exact_file_is_taken(folder):
    assert packages_file(folder) == "requirements.txt"
    (folder / "uv.lock").write_text("")
    assert packages_file(folder) == "uv.lock" and packages_file(folder / "more") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-r ../outside.txt", "is named by a requirements file but does not exist in"),
        ("-r nothing.txt", "nothing.txt is named by a requirements file"),
        ("./lib", "asks for './lib', which has no name of a package"),
        ("lib/part", "asks for 'lib/part', which has no name of a package"),
        ("https://example.org/a.whl", "which has no name of a package"),
        ("-e ./lib", "has '-e ./lib', which is not understood here"),
        ("--frobnicate", "has '--frobnicate', which is not understood here"),
    ],
)
def test_a_requirement_that_can_not_be_installed_is_reported(folder, line, words):
    (folder.parent / "outside.txt").write_text("tqdm\n")
    (folder / "requirements.txt").write_text(f"{line}\n")
    with pytest.raises(GridbenchError, match=words.replace(".", r"\.")):
        wanted(folder, "requirements.txt", HERE, PYTHON)


@pytest.mark.parametrize(
    "line", ["https://me:sesame@example.org/a.whl", "--frobnicate=https://example.org/?token=sesame"]
)
def test_no_refusal_tells_a_login(folder, line):
    (folder / "requirements.txt").write_text(f"{line}\n")
    with pytest.raises(GridbenchError, match=r"example\.org") as refused:
        wanted(folder, "requirements.txt", HERE, PYTHON)
    assert "sesame" not in str(refused.value)


def test_a_file_that_is_not_there(folder):
    with pytest.raises(
        GridbenchError, match=r"packages='other\.txt' is not a file in .*, which has requirements"
    ):
        wanted(folder, "other.txt", HERE, PYTHON)


@pytest.mark.parametrize("name", ["torch", "NumPy", "nvidia_cublas", "nvidia-cudnn-cu12", "triton"])
def test_packages_of_the_machine_are_recognised(name):
    assert (
        is_the_machines(name) and not is_the_machines("torchvision") and not is_the_machines("nvidia-ml-py")
    )
