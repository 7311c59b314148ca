import contextlib
import logging
import pickle
import traceback

import pytest

from infra.lambda_cloud.errors import KeyRefused, LambdaError, Unavailable, refusal, tidy
from infra.lambda_cloud.rent import cloud_config, key_pair, rented
from tests.emulators.lambda_cloud.quick import PUBLIC_KEY, client, lease, request, wish

MARK = "PRIVATE KEY"


def chain(error):
    """Return all that a log or a screen can show of an error."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


async def test_a_whole_rental_logs_and_says_no_secret(cloud, caplog):
    caplog.set_level(logging.DEBUG)
    said = []
    cloud.control.fault(limit=2)
    cloud.control.fault("launchInstance", "server_error", limit=1)
    async with client(cloud) as api, rented(api, wish(), lease(), said.append, cloud.machines.answers) as box:
        shown = repr((api, box, box.instance, box.lease)) + str(box)
        secret = box.private_key.splitlines()[1]
    for text in (shown, caplog.text, "".join(said)):
        assert cloud.control.key not in text
        assert MARK not in text and secret not in text
        assert "secret_jupyter_token" not in text
    assert "httpx" in caplog.text  # something was logged at all


@pytest.mark.parametrize("answer", ["throttled", "server_error", "provider", "hang_up", "empty"])
async def test_no_error_shows_the_key(cloud, answer):
    cloud.control.fault(answer=answer)
    async with client(cloud, patience_s=0.1) as api:
        for call in (
            api.offers(),
            api.instance("i"),
            api.add_ssh_key("k", PUBLIC_KEY),
            api.launch(request()),
        ):
            with pytest.raises(LambdaError) as caught:
                await call
            assert cloud.control.key not in chain(caught.value)


async def test_a_secret_that_the_api_echoes_is_not_printed(cloud):
    pair = key_pair("host")
    broken = cloud_config(pair) + "\n: [broken"
    async with client(cloud) as api:
        await api.add_ssh_key("key-1", PUBLIC_KEY)
        with pytest.raises(LambdaError, match="user_data is no YAML") as caught:
            await api.launch(request(user_data=broken))
    assert MARK not in chain(caught.value)
    assert pair.private.splitlines()[1] not in chain(caught.value)


def test_an_answer_with_the_key_is_reported_without_the_key():
    body = (
        '{"error": {"code": "global/x", "message": "Bearer sesame\\n is bad", "suggestion": "drop sesame"}}'
    )
    error = refusal("asking", 400, body, secrets=("sesame",))
    assert str(error) == "asking: Bearer … is bad (HTTP 400, global/x); drop …"


@pytest.mark.parametrize(
    "body", ["", "null", "[]", "{}", '{"error": 1}', '{"error": {"message": 1}}', "<html>", "[" * 10**5]
)
@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 418, 429, 500, 503])
def test_any_answer_becomes_a_sentence(status, body):
    error = refusal("asking", status, body)
    assert str(error).count("\n") == 0 and "asking" in str(error)
    assert isinstance(error, Unavailable) == (status in (403, 404, 429) or status >= 500)
    assert isinstance(error, KeyRefused) == (status == 401)


def test_long_answers_are_cut():
    assert len(tidy("word " * 1000)) <= 300


def test_private_parts_are_not_shown():
    pair = key_pair("x")
    config = cloud_config(pair)
    for shown in (pair, request(user_data=config)):
        assert MARK not in repr(shown) + str(shown)
    with contextlib.suppress(ValueError):
        request(user_data=config, name="")
    with pytest.raises(ValueError) as caught:
        request(user_data=config + "x" * 1_000_000)
    assert MARK not in chain(caught.value)


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(Unavailable("no", perhaps_done=False, after_s=3)))
    assert (str(error), error.perhaps_done, error.after_s) == ("no", False, 3)
