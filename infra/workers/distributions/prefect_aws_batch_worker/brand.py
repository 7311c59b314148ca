"""The names that the workers use in this package: the only source file that differs between packages."""

from .branding import Branding

BRAND = Branding(name="aws-batch", env_prefix="AWS_BATCH_WORKER_")
