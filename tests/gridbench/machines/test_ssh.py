import pytest


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a b",), "error: hosts.0: address 'a b' is neither a name nor an IP address"),
        (("1x@box",), "error: hosts.0.user is '1x'"),
        (("box", "--jump", "me@"), "error: the jump 'me@' is not [USER@]HOST[:PORT]"),
        (("box", "--host-key", "nonsense"), "error: hosts.0.host_key: string should match pattern"),
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
