"""A real library in place of the NVIDIA driver's."""

from tests.workloads.harness.probes.real_library import library, real_driver  # noqa: F401
