import subprocess
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from gridbench.machines import image
from infra.images import context, engine, flavours
from infra.images.errors import ImageError
from tasks.errors import GridbenchError
from tasks.travel.tree import hex_of, take
from tests.emulators.images import content_hash

REPOSITORY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/gridbench/lane"


def run(*arguments):
    return CliRunner().invoke(image.app, arguments)


def refused(*arguments):
    error = run(*arguments).exception
    assert isinstance(error, GridbenchError | ImageError), error
    return str(error)


@pytest.mark.parametrize("name", flavours.flavours())
def test_every_flavour_is_pinned_by_the_lock(name):
    wanted = flavours.flavour(name)
    packages = [flavours.package(line) for line in flavours.requirements(wanted)]
    assert (
        {"prefect", "numpy", "psutil", "nvidia-ml-py", "aiohttp"} <= set(packages) <= set(flavours.locked())
    )
    assert not {"pytest", "moto", "ruff", "pandas", "vl-convert-python"} & set(packages)
    assert "+" in wanted.torch
    assert wanted.index.endswith(wanted.torch.partition("+")[2])


def test_cuda_flavours_name_their_drivers_and_gpus():
    from workloads.harness.checks.preflight import OLDEST_DRIVER

    for major in (12, 13):
        wanted = flavours.flavour(f"cuda{major}")
        assert wanted.minimum_driver == OLDEST_DRIVER[major]
        assert "7.5" in wanted.capabilities  # T4
        assert "8.6" in wanted.capabilities  # A10G, and L4 by it


def test_a_context_has_the_sources_and_nothing_else(tmp_path):
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificates")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "torch-2.13.0+cpu-py3-none-any.whl").write_bytes(b"wheel")
    folder = tmp_path / "context"
    folder.mkdir()
    context.fill(folder, flavours.flavour("cpu"), context.Inputs(tmp_path / "wheels", bundle))
    assert sorted(path.name for path in folder.iterdir()) == ["Dockerfile", "packages", "source"]
    assert (folder / "source/flows/lane.py").is_file()
    assert (folder / "source/deployments/gpus.yaml").is_file()
    assert not list(folder.rglob("hardware/*.yaml"))  # addresses of boxes stay private
    assert not list(folder.rglob("__pycache__")) and not (folder / "source/tests").exists()
    assert (folder / "packages/certs/ca.crt").read_text() == "certificates"
    before = content_hash(folder)
    (folder / "packages/certs/ca.crt").unlink()
    assert content_hash(folder) == before  # certificates are not in the image
    (folder / "source/flows/lane.py").write_text("other")
    assert content_hash(folder) != before


def test_a_revision_tells_a_dirty_tree(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y"]
    assert context.revision(tmp_path) == "unknown"
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    commit = context.revision(tmp_path)
    assert len(commit) == 40
    (tmp_path / "new").write_text("")
    assert context.revision(tmp_path) == f"{commit}-dirty"
    assert image.default_tag("cpu", f"{commit}-dirty") == f"{image.NAME}:cpu-{commit[:12]}-dirty"


def test_mistakes_are_one_sentence(tmp_path):
    assert "there are cpu, cuda12, cuda13" in refused("build", "--flavour", "cuda9")
    assert "holds no wheels" in refused("build", "--wheels", str(tmp_path))
    assert "is not a file" in refused("build", "--ca-bundle", str(tmp_path))
    assert "there are docker, podman" in refused("build", "--engine", "nerdctl")
    assert "must be HOST/NAME" in refused("push", "gridbench")
    assert "must be HOST/NAME" in refused("push", f"{REPOSITORY}:latest")


def test_a_reference_is_named_by_its_digest():
    for name in ("host/lane", "host/lane:cpu", "host/lane@sha256:12", "@sha256:" + "0" * 64):
        assert "must name an image by its digest" in refused("build", "--reference", name)


def test_a_reference_is_added_to_the_image_that_was_built(monkeypatch):
    built = []
    monkeypatch.setattr(engine, "choose", lambda wanted: "podman")
    monkeypatch.setattr(engine, "inspect", lambda chosen, name: ("0", 0))
    monkeypatch.setattr(
        engine,
        "build",
        lambda chosen, folder, tag, given: built.append((tag, given, (folder / "Dockerfile").read_text())),
    )
    earlier = f"host/lane@sha256:{'0' * 64}"
    found = run("build", "--tag", "localhost/mine:1", "--reference", earlier)
    assert found.exit_code == 0, found.output
    (first, _, plain), (second, given, more) = built
    assert first == second == "localhost/mine:1"
    assert given == {"IMAGE": first, "REFERENCE": earlier}
    assert "COPY --from=reference /opt/venv /opt/reference" in more and "reference" not in plain
    assert 'reference: ["/opt/reference/bin/python", "-P", "-m", "workloads"]' in found.output


def test_code_and_its_packages_are_added_to_the_image_that_was_built(monkeypatch, tmp_path):
    built = []

    def build(chosen, folder, tag, arguments):
        files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        built.append((tag, arguments, files))

    monkeypatch.setattr(image.engine, "build", build)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "requirements.txt").write_text("einops\n")
    image.add_code("podman", "lane:cpu", tmp_path)
    tree = take(tmp_path)
    asked = {"IMAGE": "lane:cpu", "CODE": tree.id, "REQUIREMENTS": "requirements.txt"}
    assert built == [("lane:cpu", asked, {"Dockerfile", f"code/{hex_of(tree.id)}.pack"})]
    (tmp_path / ".env").write_text("TOKEN=x")
    with pytest.raises(GridbenchError, match="looks like a secret"):
        image.add_code("podman", "lane:cpu", tmp_path)
    assert len(built) == 1


def test_docker_is_taken_where_its_daemon_answers(monkeypatch):
    there = {"docker", "podman"}
    monkeypatch.setattr(engine.shutil, "which", lambda name: name in there)
    monkeypatch.setattr(engine, "answers", lambda *command: True)
    assert engine.choose() == "docker"
    monkeypatch.setattr(engine, "answers", lambda *command: False)
    assert engine.choose() == "podman"
    there.clear()
    with pytest.raises(ImageError, match="neither docker nor podman"):
        engine.choose()


def test_docker_digests_belong_to_their_repository():
    references = ["other/name@sha256:1", "host:5000/lane@sha256:2"]
    assert engine.digest_of(references, "host:5000/lane:cpu") == "sha256:2"
    with pytest.raises(ImageError, match="no digest"):
        engine.digest_of(references, "host/none:cpu")


def test_docker_leaves_docker_hubs_name_out_of_digests():
    # [thread] zenml-io/zenml #3619: RepoDigests of docker.io/tsunghaochen/zenml
    assert engine.digest_of(["you/lane@sha256:1"], "docker.io/you/lane:cpu") == "sha256:1"
    with pytest.raises(ImageError, match="no digest"):
        engine.digest_of(["you/lane@sha256:1"], "ghcr.io/you/lane:cpu")


@pytest.mark.parametrize(("machine", "named"), [("arm64", True), ("aarch64", True), ("x86_64", False)])
def test_an_image_is_for_x86_wherever_it_is_built(monkeypatch, tmp_path, machine, named):
    commands = []
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(
        engine.subprocess,
        "run",
        lambda command, **_: commands.append(command) or SimpleNamespace(returncode=0),
    )
    engine.build("docker", tmp_path, "lane:cpu", {})
    assert ("--platform linux/amd64" in " ".join(commands[0])) == named
