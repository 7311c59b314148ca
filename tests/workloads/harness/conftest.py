"""Shared by the tests of the harness: a real library in place of the driver's."""

from tests.workloads.harness.probes.real_library import library, real_driver  # noqa: F401
