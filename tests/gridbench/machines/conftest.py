import pytest

from gridbench import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command; return exit code and output."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["gridbench", "ssh", "check", *words])
        with pytest.raises(SystemExit) as left:
            main.main()
        printed = capsys.readouterr()
        return left.value.code or 0, printed.out + printed.err

    return run
