import pytest

from tests.emulators import containers
from tests.emulators.kube.job_examples import connected, end_of, terminated
from tests.emulators.kube.nodes.podman import Containers
from tests.emulators.kube.server import kube

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

HUNGRY = "x = bytearray(300 << 20)"
CHILD = f"import subprocess; print(subprocess.run(['python3', '-c', {HUNGRY!r}]).returncode)"


@pytest.fixture
def cluster(base_image):
    with kube(Containers()) as made:
        made.control.images["bench/*"] = base_image
        yield made


async def run(kubernetes, *args, **options):
    name = await kubernetes.submit(*args, **options)
    done = await kubernetes.ended(name)
    (pod,) = await kubernetes.pods(name)
    return pod, done


async def test_a_container_has_its_memory_volumes_and_user(kubernetes):
    script = "id -u; df -m /dev/shm /scratch | awk 'NR > 1 {print $2}'; touch /x 2>/dev/null || echo closed; "
    script += "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; exit 3"
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "32Mi"}},
    ]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "scratch", "mountPath": "/scratch"}]
    security = {"runAsUser": 1000, "readOnlyRootFilesystem": True}
    container = {"volumeMounts": mounts, "securityContext": security}
    pod, done = await run(
        kubernetes, script, limits={"memory": "256Mi"}, container=container, pod={"volumes": volumes}
    )
    assert end_of(done) == ("Failed", "BackoffLimitExceeded")
    assert (terminated(pod).exit_code, terminated(pod).reason) == (3, "Error")
    assert (await kubernetes.log(pod)).split() == ["1000", "128", "32", "closed", str(256 << 20)]


async def test_out_of_memory_is_told_also_where_the_first_process_lives_on(kubernetes):
    command = {"command": ["python3", "-c", HUNGRY]}
    pod, done = await run(kubernetes, "", limits={"memory": "64Mi"}, container=command)
    assert end_of(done)[0] == "Failed"
    assert (terminated(pod).exit_code, terminated(pod).reason) == (137, "OOMKilled")
    command = {"command": ["python3", "-c", CHILD]}
    pod, done = await run(kubernetes, "", limits={"memory": "64Mi"}, container=command)
    assert end_of(done)[0] == "Complete"
    assert pod.status.phase == "Succeeded"
    assert (terminated(pod).exit_code, terminated(pod).reason) == (0, "OOMKilled")
    assert await kubernetes.log(pod) == "-9\n"


async def test_containers_end_with_the_cluster(base_image):
    with kube(Containers()) as cluster:
        async with connected(cluster) as kubernetes:
            name = await kubernetes.submit("echo on; exec sleep 600", image=base_image)
            pod = await kubernetes.speaking(name)
            listed = containers.podman("ps", "--format", "{{.Names}} {{.Labels}}").stdout
            (mine,) = [line for line in listed.splitlines() if pod.metadata.uid in line]
            assert containers.LABEL in mine
    assert pod.metadata.uid not in containers.podman("ps", "--all", "--format", "{{.Names}}").stdout
