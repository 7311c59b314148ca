"""The command, as a person types it."""

import pytest

from gridbench import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command; returns its exit code and what it printed."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["gridbench", "ssh", "check", *words])
        with pytest.raises(SystemExit) as left:
            main.main()
        printed = capsys.readouterr()
        return left.value.code or 0, printed.out + printed.err

    return run
