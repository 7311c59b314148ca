"""The names that the workers use in this package: the only source file that differs between packages."""

from .branding import Branding

BRAND = Branding(
    name="gridbench",
    env_prefix="GRIDBENCH_",
    container_label="dev.gridbench.measuring",
    cache_path="/home/gridbench/.gridbench/kept",
    lock_file="~/.gridbench/box.lock",
    module="torch",
    code_module="infra.workers.ssh.lane_code",
    artifact_type="bench-record",
)
