"""The flow `bench` with a form for any command, which becomes a suite."""

import shlex
from pathlib import Path

from prefect import State, flow
from prefect.states import Failed

from flows import form
from flows.bench import measured_own
from flows.hooks import collect_and_stop
from tasks.errors import GridbenchError
from tasks.own_script import OwnCommand, sizes_of
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.repeat.commands import pairs_of, server_table


@flow(name="bench", on_cancellation=[collect_and_stop], on_crashed=[collect_and_stop])
async def bench(
    folder: form.Folder,
    command: form.Command = "",
    metrics: form.Metrics = [],  # noqa: B006 - the form in the UI shows it
    hardware: form.Hardware = ["local-cpu"],  # noqa: B006
    sizes: form.Sizes = "",
    warm_ups: form.WarmUps = 0,
    packages: form.Packages = "",
    data: form.Data = "",
    image: form.Image = "",
    variables: form.Variables = [],  # noqa: B006
    serve: form.Serve = "",
    ready: form.Ready = "",
    slo: form.Slo = [],  # noqa: B006
    load: form.Load = [],  # noqa: B006
    repeats: form.Repeats = 0,
    timeout_s: form.Timeout = 0,
    budget_usd: form.Budget = 5.0,
    results: form.Results = "",
) -> str | State[str]:
    """Measure any command: its time, and the numbers in its output; which machine is best, which cheapest?

    Args:
        folder: The folder that it runs in, in full, on the machine of the worker of pool local.
        command: The program and its arguments, such as ./simulate --cells {cells}; empty for our own load of a server.
        metrics: Numbers in its output, such as tokens/s: Throughput: ([0-9.]+) tok; none for the time of a call.
        hardware: The machines to measure on: files in deployments/hardware.
        sizes: Values of each placeholder of the command, such as batch=16,32 seq=128.
        warm_ups: Calls in each repeat before the one that counts.
        packages: File in the folder that names Python packages, such as requirements.txt; empty for none.
        data: Folder of the machine, or an s3:// address, for the placeholder {data}; empty for none.
        image: Container image to measure in, such as vllm/vllm-openai:v0.11.0; empty for that of the machine.
        variables: Variables of its process, such as OMP_NUM_THREADS=8; not for secrets.
        serve: A server that the command calls, such as vllm serve MODEL --port {port}; empty for none.
        ready: Address that answers with status 200 once the server is ready; empty for /health of {port}.
        slo: Promised latencies such as ttft_p99_ms=500, for which our own load finds the largest rate.
        load: Options of our own load, such as prompt_tokens=128-512.
        repeats: Fresh processes per size; 0 for three. One gives no interval.
        timeout_s: Seconds after which a repeat is stopped; 0 for 600.
        budget_usd: Refuse to start above it by the estimate, and stop once it is spent.
        results: Folder of the results store, or a block such as s3-bucket/gridbench; results/ where empty.
    """
    try:
        given = {
            "run": command or None,
            "folder": str(Path(folder).expanduser()),
            "metrics": metrics,
            "size": sizes_of(shlex.split(sizes or "")),
            "warm_ups": warm_ups or None,
            "packages": packages or None,
            "data": data or None,
            "image": image or None,
            "env": pairs_of(variables),
            "repeats": repeats or None,
            "timeout_s": timeout_s or None,
            **server_table(serve, ready, None, slo, load),
        }
        return await measured_own(OwnCommand, given, hardware, budget_usd, results)
    except (GridbenchError, WorkloadsError) as error:  # a user's mistake is a sentence, without a traceback
        return Failed(message=str(error))
