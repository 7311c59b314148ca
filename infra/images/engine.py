"""docker or podman, whichever works here."""

import json
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra.images.errors import ImageError

ENGINES = ("docker", "podman")
X86 = ("x86_64", "AMD64")
NONE = "neither docker nor podman works here; install podman, or start Docker (`docker info` must succeed)"


def choose(name: str | None = None) -> str:
    if name and name not in ENGINES:
        raise ImageError(f"engine {name!r} is unknown; there are {', '.join(ENGINES)}")
    if name and not shutil.which(name):
        raise ImageError(f"engine {name} is not installed")
    if name:
        return name
    if shutil.which("docker") and answers("docker", "info"):
        return "docker"
    if shutil.which("podman"):
        return "podman"
    raise ImageError(NONE)


def answers(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def call(*command: str, stdin: str | None = None) -> str:
    """Return a command's output; raise `ImageError` with its last line."""
    done = subprocess.run(command, capture_output=True, text=True, input=stdin, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise ImageError(f"{' '.join(command[:2])} failed: {lines[-1]}")
    return done.stdout.strip()


def build(engine: str, context: Path, tag: str, arguments: dict[str, str]) -> None:
    """Build for x86-64: engines default to this machine's processor, such as a Mac's."""
    options = [option for item in arguments.items() for option in ("--build-arg", "=".join(item))]
    host = ["--network", "host"] if engine == "podman" else []
    host += [] if platform.machine() in X86 else ["--platform", "linux/amd64"]
    done = subprocess.run([engine, "build", *host, *options, "--tag", tag, str(context)], check=False)
    if done.returncode:
        raise ImageError(f"{engine} build ended with exit code {done.returncode}; its last lines say why")


def inspect(engine: str, image: str) -> tuple[str, int]:
    if not answers(engine, "image", "inspect", image):
        raise ImageError(f"the image {image} does not exist here; build it: gridbench image build")
    description = json.loads(call(engine, "image", "inspect", image))[0]
    return str(description["Id"]).removeprefix("sha256:"), int(description["Size"])


def log_in(engine: str, registry: str, user: str, password: str) -> None:
    """Use standard input, which hides the password from process lists."""
    call(engine, "login", "--username", user, "--password-stdin", registry, stdin=password)


def push(engine: str, image: str, target: str) -> str:
    call(engine, "tag", image, target)
    if engine == "podman":
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "digest"
            call(engine, "push", "--digestfile", str(file), target)
            return file.read_text().strip()
    call(engine, "push", target)
    return digest_of(json.loads(call(engine, "image", "inspect", target))[0]["RepoDigests"], target)


def digest_of(references: Sequence[str], target: str) -> str:
    hub = "docker.io/"  # docker leaves it out of names
    repository = target.rpartition(":")[0].removeprefix(hub)
    for text in references:
        name, _, digest = text.partition("@")
        if name.removeprefix(hub) == repository:
            return digest
    raise ImageError(f"the registry reported no digest for {target}")
