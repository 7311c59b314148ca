import io
import subprocess
import sys
import zipfile

from infra.workers.ssh.lane_code import lane_bundle

SHOWS = "import sys; sys.path.insert(0, {!r}); import tasks.travel.lane as lane; print(lane.__file__)"


def test_a_lane_bundle_holds_the_code_and_package_names_of_an_image():
    name, content = lane_bundle()
    assert lane_bundle() == (name, content)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        names = set(file.namelist())
        packages = file.read("requirements.txt").decode().splitlines()
        pinned = file.read("installer.txt").decode()
    assert {"flows/lane.py", "workloads/__main__.py", "deployments/gpus.yaml"} <= names
    assert not any("__pycache__" in name or "hardware/" in name for name in names)
    assert "prefect==3.8.8" in packages and packages[-1] == "-c constraints.txt"
    assert not any(line.startswith(("torch", "numpy", "psutil", "asyncssh", "pandas")) for line in packages)
    assert pinned.startswith("uv==") and "--hash=sha256:" in pinned


def test_a_lane_bundle_needs_only_python(tmp_path):
    name, content = lane_bundle()
    path = tmp_path / f"{name}.pyz"
    path.write_bytes(content)
    words = [sys.executable, "-I", "-S", "-c", SHOWS.format(str(path))]
    done = subprocess.run(words, capture_output=True, text=True)
    assert str(path) in done.stdout, done.stderr
