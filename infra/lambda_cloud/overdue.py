"""The sweep before anything else is done at Lambda: a renter that died can't give its box back itself."""

from datetime import UTC, datetime

from infra.lambda_cloud.api import LambdaApi, api_key, api_url
from infra.lambda_cloud.errors import KeyRefused, LambdaError
from infra.lambda_cloud.give_back import Say
from infra.lambda_cloud.janitor import sweep
from infra.lambda_cloud.settings import ApiPace

HASTE = ApiPace(patience_s=20.0, return_s=120.0)  # somebody waits for the command that begins with it


async def sweep_overdue(say: Say, pace: ApiPace | None = None) -> None:
    """Give back what is past its deadline, whoever rented it: three calls where there is nothing.

    What fails is said, and keeps nothing else from being done.

    Raises:
        LambdaError: there is no key, or it is refused.
    """
    key, url = api_key(), api_url()
    try:
        async with LambdaApi(key, url, pace or HASTE) as api:
            swept = await sweep(api, datetime.now(UTC), say)
    except KeyRefused:
        raise
    except LambdaError as error:
        say(f"could not check for overdue machines at Lambda Cloud: {error}")
        return
    for problem in swept.problems:
        say(f"error: {problem}")
