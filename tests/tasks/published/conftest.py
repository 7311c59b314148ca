import pytest

from gridbench.check import known_machines


@pytest.fixture(scope="session")
def known():
    return known_machines()
