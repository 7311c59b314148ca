import errno
import pwd

import pytest

from workloads.harness.probes.roof import roof_path
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.places import home, temporary_home, user_cache
from workloads.harness.repeat.exclusive import lock_path


@pytest.fixture
def nobody(monkeypatch):
    def unknown(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "XDG_CACHE_HOME", "GRIDBENCH_BOX_LOCK", "GRIDBENCH_ROOF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


def test_without_home_and_name_the_cache_is_below_the_temporary_folder(nobody):
    assert home() == temporary_home() and home().is_absolute()
    assert user_cache().is_relative_to(home())
    assert roof_path({}, "cpu", 1).is_relative_to(home())
    assert lock_path().is_relative_to(temporary_home())


def test_a_home_is_taken_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert (home(), user_cache()) == (tmp_path, tmp_path / ".cache" / "gridbench")


def test_a_machine_without_a_temporary_folder_is_named(monkeypatch):
    def refuse():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.gettempdir", refuse)
    with pytest.raises(WorkloadsError, match="TMPDIR"):
        temporary_home()
