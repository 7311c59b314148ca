"""The names that the workers use in this package: the only source file that differs between packages."""

from .branding import Branding

BRAND = Branding(
    name="prefect-ssh",
    env_prefix="SSH_WORKER_",
    container_label="dev.prefect-ssh.container",
    cache_path="/kept",
    lock_file="~/.prefect-ssh/box.lock",
)
