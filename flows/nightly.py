"""The flow `nightly`: has anything got worse since last night?"""

from prefect import State, flow, get_client, get_run_logger
from prefect.states import Completed, Failed

from flows import form
from flows.bench import bench
from flows.hooks import end_children
from flows.opaque import opaque
from tasks.dispatch.catch_up import superseded
from tasks.errors import GridbenchError
from tasks.judge import judge_stored_night, publish_night, spent_on
from tasks.measure import NOTHING
from tasks.planning.channel import Night
from tasks.planning.request import RunRequest
from tasks.regressions.night import JudgedNight
from tasks.schema import validated
from tasks.store.address import ResultsAddress

NOT_JUDGED = "NothingJudged"  # state of a night without a number that counts


@flow(name="nightly", on_cancellation=[end_children], on_crashed=[end_children])
async def nightly(
    suite: form.Suite = "nightly",
    hardware: form.Hardware = ["local-cpu-1", "local-cpu"],  # noqa: B006 - the form in the UI shows it
    channel: form.Channel = "main",
    repeats: form.Repeats = 0,
    sessions: form.Sessions = 0,
    hours_apart: form.HoursApart = 1.0,
    budget_usd: form.Budget = 5.0,
    results: form.Results = "",
) -> State[None]:
    """Measure a night, compare it with the nights before, measure suspects again, and report regressions.

    Args:
        suite: The cases to watch: a file in deployments/suites.
        hardware: The machines to measure on: files in deployments/hardware.
        channel: Name of the software version that is followed, such as main: a night is compared with earlier
            nights of the same channel.
        repeats: Repeats of each cell; 0 for the suite's own number.
        sessions: Sessions of each machine, over which the repeats are spread; 0 for the suite's own number. Suspects
            are measured again in as many.
        hours_apart: Hours from the end of a session to the next one on the same machine; a rented machine gets another
            box at once.
        budget_usd: Limit for the whole night, including everything that is measured again.
        results: Folder of the results store, or a block such as s3-bucket/gridbench; results/ where empty.
    """
    address = ResultsAddress.parse(results)
    if why := await superseded():
        return Completed(name="Skipped", message=why)
    try:
        request = RunRequest(
            suite=suite,
            hardware=tuple(hardware),
            repeats=repeats or None,
            sessions=sessions or None,
            session_gap_s=3600 * hours_apart,
            budget_usd=budget_usd,
            results=results or None,
            night=validated(Night, {"channel": channel}, "night"),
        )
        run = await _measured(request)
        judged = await _judge_after_unfiled(address, run)
        if judged.to_confirm:
            await _confirm_suspects(judged, request)
            judged = await judge_stored_night(address, run)
        verdicts = await publish_night(opaque(judged), address)
    except GridbenchError as error:
        return Failed(message=str(error))
    if verdicts.is_empty:
        return Failed(name=NOT_JUDGED, message=verdicts.answer)
    if verdicts.bad:
        return Failed(name="Regressed", message=verdicts.answer)
    return Completed(message=verdicts.answer)


async def _judge_after_unfiled(results: ResultsAddress, run: str) -> JudgedNight:
    """File earlier nights first that were interrupted between measuring and filing."""
    judged = await judge_stored_night(results, run)
    for earlier in judged.unfiled:
        get_run_logger().info(f"night {earlier} was not filed, which is done now")
        await publish_night(opaque(await judge_stored_night(results, earlier)), results)
    return await judge_stored_night(results, run) if judged.unfiled else judged


async def _confirm_suspects(judged: JudgedNight, request: RunRequest) -> None:
    run, budget_usd = judged.night.plan.run, request.budget_usd or 0.0
    night = request.night or Night()
    for machine, cases in judged.to_confirm.items():
        changes = {
            "hardware": (machine,),
            "repeats": judged.repeats,
            "budget_usd": max(budget_usd - spent_on(request.address, run), 0.0),
            "night": night.model_copy(update={"confirms": run, "cases": tuple(cases)}),
        }
        try:
            await _measured(request.model_copy(update=changes))
        except GridbenchError as error:  # they stay suspects in their verdicts
            get_run_logger().info(f"the suspects of {machine} could not be measured again: {error}")


async def _measured(request: RunRequest) -> str:
    state = await bench(request=request, return_state=True)
    run_id = state.state_details.flow_run_id
    if run_id is None or not (state.is_completed() or state.name == NOTHING):
        raise GridbenchError(state.message or f"bench ended {state.name}")
    async with get_client() as client:
        return (await client.read_flow_run(run_id)).name
