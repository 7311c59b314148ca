import pytest

from gridbench.run import box
from tasks.errors import GridbenchError
from tests.infra.workers.ssh.answering import KEY, PINNED, answering_elsewhere

ESCAPES = (
    "\x1b[2J\x1b]0;owned\x07\x1b[31mFAKE: all good\x1b[0m\x1b]8;;http://evil/\x07click\x1b]8;;\x07\u202e"
)
FIT = "kernel=6.1\narchitecture=x86_64\nhome=/root\nruntime=ok\ninfo={}\nfree_kib=99999999 /\n"
ANSWERS = {  # to the verb `check`
    "escapes": f"kernel={ESCAPES}\narchitecture={ESCAPES}\nhome=/root\nruntime=ok\ncpu={ESCAPES}\ngpu={ESCAPES}, {ESCAPES}\n",
    "lacking": "runtime=ok\ninfo={}\nfree_kib=99999999 /\nhome=/root\n",
    "deep": FIT.replace("{}", "[" * 200_000),
    "huge": f"{FIT}memory_kib={'9' * 4000}\ncpu=x\n",
    "nothing": "",
}


def answers(checked):
    """Return the answers to the worker's script, with these facts."""
    others = {"printenv": "/root\n", "python": "/usr/bin/python3\n"}

    def answer(words):
        known = {"check": checked} | others
        return next((known[word] for word in known if word in words), ""), "", 0

    return answer


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_of_a_hostile_box_are_printed_as_sentences_without_control_characters(run, kind):
    with answering_elsewhere(answers(ANSWERS[kind])) as port:
        words = ("x@127.0.0.1", "--port", str(port), "--host-key", PINNED, "--command", "none")
        code, text = run(*words)
    assert not set(text) & set("\x1b\x07\u202e") and "Traceback" not in text
    assert code == {"escapes": 0, "deep": 0}.get(kind, 2)
    assert all(line.startswith(("ok  ", "fix  ", "error: ")) for line in text.splitlines()), text
    assert kind != "lacking" or "kernel" in text


@pytest.fixture
def known(monkeypatch):
    """The server's key in known_hosts."""
    keys = ([KEY.convert_to_public()], [], [])
    monkeypatch.setattr("infra.workers.ssh.connection._known", lambda host: keys)


def test_hardware_of_a_hostile_box_has_a_short_printable_title(known):
    facts = f"{FIT}memory_kib=16000000\ncpu=EPYC {ESCAPES} {'x' * 10_000}\n"
    with answering_elsewhere(answers(facts)) as port:
        found = box.ask(f"ssh://x@127.0.0.1:{port}?usd=1")
    assert found.title.startswith("EPYC FAKE: all goodclick") and len(found.title) < 200
    assert not set(found.title) & set("\x1b\x07\u202e")


def test_a_memory_that_no_machine_has_is_refused(known):
    with (
        answering_elsewhere(answers(ANSWERS["huge"])) as port,
        pytest.raises(GridbenchError, match="memory_kib"),
    ):
        box.ask(f"ssh://x@127.0.0.1:{port}")
