"""The flow `nightly`: has anything got worse since last night?"""

from pathlib import Path
from typing import Any

from prefect import State, flow, get_run_logger
from prefect.states import Completed, Failed
from pydantic import NonNegativeFloat, PositiveInt

from flows.bench import Hardware, Suite, bench
from flows.hooks import end_children
from tasks.errors import GridbenchError
from tasks.judge import judge, publish_night, spent_on
from tasks.regressions.catch_up import overdue


@flow(name="nightly", on_cancellation=[end_children], on_crashed=[end_children])
async def nightly(
    suite: Suite = "nightly",
    hardware: list[Hardware] = ["local-cpu-1", "local-cpu"],  # noqa: B006 - the form in the UI shows it
    channel: str = "main",
    repeats: PositiveInt | None = None,
    budget_usd: NonNegativeFloat = 5.0,
    results: str | None = None,
) -> State[None]:
    """Measure a night, hold it against those before, measure what looks worse again, and say what is.

    Args:
        suite: Which cases to watch: a file in deployments/suites.
        hardware: Which machines to measure on: files in deployments/hardware.
        channel: Of the software that is followed, such as main; its nights are compared with no other's.
        repeats: Fresh processes per cell; the suite's own number where empty.
        budget_usd: For the whole night, with all that is measured again.
        results: Folder of the results store, or a block such as s3-bucket/gridbench; results/ where empty.
    """
    say = get_run_logger().info
    if why := await overdue():
        return Completed(name="Skipped", message=why)
    asked: dict[str, Any] = {"suite": suite, "results": results}
    try:
        run = await _measured(
            **asked, hardware=hardware, repeats=repeats, budget_usd=budget_usd, night={"channel": channel}
        )
        tonight = await judge(results, run)
        for earlier in tonight.unfiled:  # nights that ended between their last measurement and their verdict
            say(f"night {earlier} was not filed: that is done now")
            await publish_night(await judge(results, earlier), results)
        if tonight.unfiled:
            tonight = await judge(results, run)
        for machine, cases in tonight.again.items():
            left_usd = max(budget_usd - spent_on(results, run), 0.0)
            again = {"channel": channel, "confirms": run, "cases": cases}
            try:
                await _measured(
                    **asked, hardware=[machine], repeats=tonight.repeats, budget_usd=left_usd, night=again
                )
            except GridbenchError as error:  # what could not be measured again stays a suspect, and says so
                say(f"the suspects of {machine} are not measured again: {error}")
        if tonight.again:
            tonight = await judge(results, run)
        verdicts = await publish_night(tonight, results)
    except GridbenchError as error:
        return Failed(message=str(error))
    if verdicts.is_empty:
        return Failed(message=verdicts.answer)
    if verdicts.bad:
        return Failed(name="Regressed", message=verdicts.answer)
    return Completed(message=verdicts.answer)


async def _measured(**asked: Any) -> str:
    """The name of the run that `bench` measured.

    Raises:
        GridbenchError: it could not.
    """
    state = await bench(**asked, return_state=True)
    if not state.is_completed():
        raise GridbenchError(state.message or f"bench ended {state.name}")
    return Path(await state.aresult()).parent.name
