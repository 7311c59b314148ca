import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.harness.probes import machine

CPU = """processor\t: {n}
model name\t: Intel(R) Xeon(R) Platinum 8488C
cpu MHz\t\t: {mhz}
physical id\t: 0
core id\t\t: {core}
flags\t\t: fpu sse2 avx2 fma avx512f amx_tile amx_bf16 hypervisor

"""
TREE = {
    "proc/cpuinfo": CPU.format(n=0, mhz=2400.0, core=0) + CPU.format(n=1, mhz=3700.5, core=0),
    "proc/meminfo": "MemTotal:       65843420 kB\nMemFree: 5 kB\n",
    "etc/os-release": 'NAME=x\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n',
    "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
    "sys/class/dmi/id/product_name": "m7i.large\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\n",
    "run/.containerenv": "",
}
L4 = {"name": "NVIDIA L4", "driver": "580.65.06", "uuid": "GPU-1", "pcie_gen": 4, "memory_total_bytes": 2**34}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    for name in ("KUBERNETES_SERVICE_HOST", "ECS_CONTAINER_METADATA_URI_V4", "SINGULARITY_CONTAINER"):
        monkeypatch.delenv(name, raising=False)


class TestFingerprint:
    def test_a_cloud_machine(self, tmp_path):
        found = machine.fingerprint(write(tmp_path, TREE), [L4])
        expected = {
            "os": "Ubuntu 24.04.1 LTS",
            "cpu_model": "Intel(R) Xeon(R) Platinum 8488C",
            "sockets": 1,
            "physical_cores": 1,
            "logical_cpus": 2,
            "cpu_flags": ["amx_bf16", "amx_tile", "avx2", "avx512f", "fma"],
            "cpu_mhz_max": 3700.5,
            "hypervisor": True,
            "memory_total_bytes": 65843420 * 1024,
            "container": "podman",
            "system_vendor": "Amazon EC2",
            "instance_type": "m7i.large",
            "nvidia_driver": "580.65.06",
            "gpus": [L4],
            "missing": dict.fromkeys(("instance_id", "zone", "purchase"), "AWS_EC2_METADATA_DISABLED is set"),
        }
        assert {name: found[name] for name in expected} == expected
        json.dumps(found, allow_nan=False)

    def test_an_arm_machine(self, tmp_path):
        text = "processor\t: 0\nFeatures\t: fp asimd sve bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
        found = machine.fingerprint(write(tmp_path, {"proc/cpuinfo": text}))
        assert found["cpu_model"] == "Arm 0x41 0xd4f"
        assert found["cpu_flags"] == ["asimd", "bf16", "sve"]

    def test_only_amazon_writes_its_type_into_the_firmware(self, tmp_path):
        google = {
            "sys/class/dmi/id/sys_vendor": "Google",
            "sys/class/dmi/id/product_name": "Google Compute Engine",
        }
        found = machine.fingerprint(write(tmp_path, google))
        assert found["instance_type"] is None
        assert found["system_product"] == "Google Compute Engine"

    def test_an_empty_tree_gives_reasons(self, tmp_path):
        found = machine.fingerprint(tmp_path)
        for name in ("sockets", "physical_cores", "memory_total_bytes", "hypervisor", "nvidia_driver"):
            assert found[name] is None
            assert "No such file" in found["missing"][name]
        json.dumps(found, allow_nan=False)

    @pytest.mark.parametrize(
        ("variable", "name"),
        [("KUBERNETES_SERVICE_HOST", "kubernetes"), ("ECS_CONTAINER_METADATA_URI_V4", "ecs")],
    )
    def test_the_cluster_is_named_before_the_container(self, tmp_path, monkeypatch, variable, name):
        monkeypatch.setenv(variable, "here")
        assert machine.fingerprint(write(tmp_path, TREE))["container"] == name

    def test_variables_that_change_speed_are_kept(self, monkeypatch, tmp_path):
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
        assert machine.fingerprint(tmp_path)["variables"]["OMP_NUM_THREADS"] == "3"
        assert "hidden" not in json.dumps(machine.fingerprint(tmp_path))

    def test_this_machine_in_a_process_without_torch(self):
        ask = (
            "import json, sys; from workloads.harness.probes import machine; found = machine.fingerprint();"
            "assert 'torch' not in sys.modules and 'psutil' not in sys.modules; print(json.dumps(found))"
        )
        found = json.loads(
            subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout
        )
        assert found["torch"]
        assert found["numpy"]
        assert found["logical_cpus"] >= found["affinity_cpus"] >= 1

    @settings(max_examples=30, deadline=None)
    @given(text=st.text(max_size=200))
    def test_odd_content_never_raises(self, tmp_path_factory, text):
        root = tmp_path_factory.mktemp("odd")
        for name in TREE:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        found = machine.fingerprint(root)
        json.dumps(found, allow_nan=False)
        assert machine.environment_id(found)


class TestEnvironmentId:
    @pytest.fixture
    def found(self, tmp_path):
        return machine.fingerprint(write(tmp_path, TREE), [L4])

    @pytest.mark.parametrize(
        "change",
        [
            {"hostname": "other"},
            {"commit": "0" * 40},
            {"cpu_mhz_max": 1.0},
            {"variables": {"OMP_NUM_THREADS": "1"}},
            {"kernel": "7.0"},
            {"memory_total_bytes": 65843420 * 1024 - 4096},
            {"python": sys.version.split()[0].rpartition(".")[0] + ".99"},
            {"gpus": [{**L4, "uuid": "GPU-2", "pcie_gen": 1}]},
        ],
    )
    def test_the_same_machine_of_another_name(self, found, change):
        assert machine.environment_id(found | change) == machine.environment_id(found)

    @pytest.mark.parametrize(
        "change",
        [
            {"cpu_model": "AMD EPYC 9R14"},
            {"affinity_cpus": 1000},
            {"quota_cpus": 1.5},
            {"torch": "2.12.0"},
            {"cuda": "12.6"},
            {"nvidia_driver": "570.1"},
            {"memory_total_bytes": 2**34},
            {"instance_type": "m7i.xlarge"},
            {"gpus": []},
            {"gpus": [L4, L4]},
            {"gpus": [{**L4, "power_limit_w": 60.0}]},
            {"gpus": [{**L4, "mig": True}]},
        ],
    )
    def test_another_machine(self, found, change):
        assert machine.environment_id(found | change) != machine.environment_id(found)

    @pytest.mark.parametrize(
        "change", [{"torch": "2.12.0"}, {"cuda": "12.6"}, {"python": "3.99.1"}, {"commit": "0"}]
    )
    def test_a_machine_is_the_same_under_another_stack(self, found, change):
        assert (
            machine.machine_id(found | change) == machine.machine_id(found) != machine.environment_id(found)
        )

    @pytest.mark.parametrize(
        "change", [{"cpu_model": "AMD EPYC 9R14"}, {"nvidia_driver": "570.1"}, {"gpus": [L4, L4]}]
    )
    def test_a_machine_is_another_with_other_hardware_or_driver(self, found, change):
        assert machine.machine_id(found | change) != machine.machine_id(found)

    def test_the_fingerprint_of_stored_machines_stays_the_same(self):
        assert (
            machine.environment_id({"cpu_model": "x", "torch": "2.13.0", "python": "3.11.2"})
            == "cc86f606552f"
        )

    def test_survives_json_and_an_empty_fingerprint(self, found):
        assert machine.environment_id(json.loads(json.dumps(found))) == machine.environment_id(found)
        assert len(machine.environment_id({})) == 12


def cpu(*flags, arch="x86_64"):
    return {"arch": arch, "cpu_flags": list(flags)}


class TestBound:
    @pytest.mark.parametrize(
        ("found", "precision", "per_cycle"),
        [
            (cpu("avx2", "fma", "avx512f", "amx_bf16"), "fp32", 64),
            (cpu("avx2", "fma", "avx512f", "amx_bf16"), "bf16", 2048),
            (cpu("avx2", "fma", "avx512f", "amx_bf16"), "tf32", 2048),
            (cpu("avx2", "fma", "avx512f"), "bf16", 128),
            (cpu("avx2", "fma"), "fp32", 32),
            (cpu("avx2"), "fp32", 16),
            (cpu(), "fp16", 32),
            (cpu("asimd", arch="aarch64"), "fp32", 64),
            (cpu("asimd", "sve", "bf16", arch="aarch64"), "bf16", 256),
        ],
    )
    def test_threads_times_cycle_times_clock(self, found, precision, per_cycle):
        assert machine.peak_flops_bound(found, 8, precision) == pytest.approx(8 * per_cycle * 6.2e9)

    @pytest.mark.parametrize("found", [{}, cpu(arch="arm64"), cpu(arch="riscv64")])
    def test_an_unknown_cpu_has_no_bound(self, found):
        assert machine.peak_flops_bound(found, 8, "fp32") is None
