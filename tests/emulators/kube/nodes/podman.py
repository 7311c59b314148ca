"""Real containers behind pods: podman on this machine's network, with the session's label."""

import asyncio
import contextlib
import os
import subprocess
import tempfile

from tests.emulators import containers
from tests.emulators.kube.nodes.runner import CannotStart, Ended, Log, Wanted

PODMAN_FAILED = (125, 126, 127)  # podman-run(1): its own failures, unless the container really ended so

LONGEST_HOST = 63  # pkg/kubelet: a longer name of a pod is cut


class Container:
    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Log) -> None:
        self.name, self.process, self.log = name, process, log
        self.reading = asyncio.ensure_future(self.read())
        self.ended: asyncio.Task[Ended] | None = None

    async def read(self) -> None:
        stdout = self.process.stdout
        while stdout and (chunk := await stdout.read(65536)):
            self.log.write(chunk)

    async def wait(self) -> Ended:
        code = await self.process.wait()
        await self.reading
        self.log.close()
        form = "{{.Id}} {{.State.ExitCode}} {{.State.OOMKilled}}"
        told = (await podman("inspect", "--format", form, self.name)).split()
        if len(told) != 3:
            return Ended(code)
        killed = told[2] == "true" or await asyncio.to_thread(killed_by_kernel, told[0])
        await podman("rm", "--force", "--time", "0", self.name)
        return Ended(int(told[1]), killed)

    async def signal(self, number: int) -> None:
        await podman("kill", "--signal", str(int(number)), self.name)


class Containers:
    """Run containers with podman. `environment` is added to every pod's own."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self.environment, self.names = environment or {}, set[str]()
        # Where memory runs out, conmon leaves a file named oom in the folder that it was started in.
        self.folder = tempfile.TemporaryDirectory(prefix="gridbench-kube-")

    async def has(self, image: str) -> bool:
        return await asyncio.to_thread(containers.has_image, image)

    async def start(self, wanted: Wanted, log: Log) -> Container:
        name = f"kube-{wanted.name}"
        self.names.add(name)
        created = await asyncio.to_thread(containers.podman, *self.creation(name, wanted), check=False)
        if created.returncode:
            raise CannotStart(created.stderr.strip())
        process = await asyncio.create_subprocess_exec(
            *("podman", "start", "--attach", "--sig-proxy=false", name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=containers.environment(),
            cwd=self.folder.name,
            start_new_session=True,
        )
        container = Container(name, process, log)
        await self.begun(container)
        return container

    async def begun(self, container: Container) -> None:
        """Return once it runs or has run; raise CannotStart with podman's words."""
        while True:
            state = await podman("inspect", "--format", "{{.State.Status}}", container.name)
            if state in ("running", "exited", "stopped"):
                return
            if container.process.returncode in PODMAN_FAILED:
                await container.reading
                said = b"".join(line for _, line in container.log.lines) + container.log.rest
                await podman("rm", "--force", "--time", "0", container.name)
                raise CannotStart(said.decode(errors="replace").strip())
            await asyncio.sleep(0.02)

    def creation(self, name: str, wanted: Wanted) -> list[str]:
        label = f"{containers.LABEL}={os.getpid()}"
        options = ["create", "--name", name, "--label", label, "--network", "host", "--pull", "never"]
        if wanted.memory_bytes:
            options += ["--memory", str(wanted.memory_bytes), "--memory-swap", str(wanted.memory_bytes)]
        if wanted.shm_bytes:
            options += ["--shm-size", str(wanted.shm_bytes)]
        for path, size in wanted.tmpfs.items():
            options += ["--tmpfs", f"{path}:rw,mode=1777" + (f",size={size}" if size else "")]
        for host, path, read_only in wanted.binds:
            options += ["--volume", f"{host}:{path}{':ro' if read_only else ''}"]
        for variable, value in (self.environment | wanted.environment).items():
            options += ["--env", f"{variable}={value}"]
        if host := wanted.environment.get("HOSTNAME"):  # the pod's name, which it resolves
            options += ["--hostname", host[:LONGEST_HOST], "--add-host", f"{host[:LONGEST_HOST]}:127.0.0.1"]
        options += ["--user", wanted.user] if wanted.user else []
        options += ["--read-only", "--read-only-tmpfs=false"] if wanted.read_only else []
        options += ["--workdir", wanted.folder] if wanted.folder else []
        if wanted.command:
            options += ["--entrypoint", wanted.command[0]]
        return [*options, wanted.image, *wanted.command[1:], *wanted.args]

    async def close(self) -> None:
        listed = await podman("ps", "--all", "--format", "{{.Names}}", "--filter", "name=^kube-")
        left = self.names & set(listed.split())
        if left:
            await podman("rm", "--force", "--time", "0", *left)
        with contextlib.suppress(OSError):
            self.folder.cleanup()


async def podman(*arguments: str) -> str:
    """Return the output of one podman command, even if it failed."""
    done = await asyncio.to_thread(containers.podman, *arguments, check=False)
    return str(done.stdout).strip()


def killed_by_kernel(container_id: str) -> bool:
    """Ask the kernel, because podman 4.3 does not report it under cgroups v1."""
    kernel = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace").stdout
    return any("oom-kill" in line and container_id in line for line in kernel.splitlines())
