"""`gridbench ssh check` against a real sshd, and its mistakes."""

import pytest

from gridbench import main
from tests.emulators.boxes import boxes


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


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a b",), "error: hosts.0: address 'a b' is neither a name nor an IP address"),
        (("1x@box",), "error: hosts.0.user is '1x'"),
        (("box", "--host-key", "nonsense"), "error: hosts.0.host_key is 'nonsense'"),
        (
            ("127.0.0.1", "--port", "1", "--key", "/no/such"),
            "error: key '/no/such' of box ubuntu@127.0.0.1:1",
        ),
        (("127.0.0.1", "--port", "1"), "error: Box ubuntu@127.0.0.1:1 does not answer (Connect"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2(run, words, sentence):
    code, text = run(*words)
    assert (code, text.startswith(sentence)) == (2, True), text


@pytest.mark.cloud
def test_a_box_is_told_to_be_fit_or_what_it_lacks(run, base_image):
    with boxes() as [box]:
        words = ("--key", str(box.key), "--host-key", str(box.host["host_key"]))
        code, text = run(f"root@{box.address}", *words, "--image", base_image)
        assert code == 0 and f"image {base_image} is there" in text and "it is fit to measure on" in text
        code, text = run(f"root@{box.address}", *words, "--gpus", "1")
        assert code == 1 and "fix  nvidia-smi finds no GPU" in text
        code, text = run(f"root@{box.address}", *words, "--command", "nodocker")
        assert code == 1 and "fix  nodocker is not installed" in text
        code, text = run(f"root@{box.address}", "--key", str(box.key))
        assert code == 2 and "no key is pinned for it" in text
