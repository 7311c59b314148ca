"""The flow `bench` with a form for a user's own script, which becomes a suite."""

import shlex
from pathlib import Path

from prefect import State, flow
from prefect.states import Failed

from flows import form
from flows.bench import measured_own
from flows.hooks import collect_and_stop
from tasks.errors import GridbenchError
from tasks.own_script import OwnScript, sizes_of


@flow(name="bench", on_cancellation=[collect_and_stop], on_crashed=[collect_and_stop])
async def bench(
    command: form.Command,
    folder: form.Folder,
    hardware: form.Hardware = ["local-cpu"],  # noqa: B006 - the form in the UI shows it
    offers: form.Offers = False,
    sizes: form.Sizes = "",
    steps: form.Steps = 0,
    epochs: form.Epochs = 0,
    through: form.Through = 0,
    step_of: form.StepOf = "",
    samples: form.Samples = 0,
    packages: form.Packages = "",
    data: form.Data = "",
    image: form.Image = "",
    processes: form.Processes = 1,
    whole: form.Whole = False,
    repeats: form.Repeats = 0,
    budget_usd: form.Budget = 5.0,
    results: form.Results = "",
) -> str | State[str]:
    """Measure a training script of your own, unchanged: which machine is fastest, which cheapest?

    Args:
        command: The script and its arguments, such as train.py --batch {batch}, or -m package.module.
        folder: The folder that it runs in, in full, on the machine of the worker of pool local.
        hardware: The machines to measure on: files in deployments/hardware.
        offers: Measure the first machine, predict the others and all offers, and measure only those that can be the
            fastest or the cheapest, within the budget.
        sizes: Values of each placeholder of the command, such as batch=16,32 seq=128.
        steps: Length of the whole job, to predict its time and price; 0 for no prediction.
        epochs: The same in epochs, for scripts whose data loader has a known length.
        through: Number of these steps or epochs to measure before predicting, however long; 0 for a minute.
        step_of: The end of a step, if it cannot be found: AdamW, Adam:2, backward, forward, loader or mark.
        samples: Samples of a step, if they cannot be found; 0 to find them.
        packages: File in the folder that names its packages, such as requirements.txt; empty for none.
        data: Folder of the machine, or an s3:// address, for the placeholder {data}; empty for none.
        image: Container image to measure in, such as pytorch/pytorch; empty for that of the machine.
        processes: Ranks that train together, as under torchrun.
        whole: Let it run to its end, in place of stopping it once it is measured.
        repeats: Fresh processes per size; 0 for three. One gives no interval.
        budget_usd: Refuse to start above it by the estimate, and stop once it is spent.
        results: Folder of the results store, or a block such as s3-bucket/gridbench; results/ where empty.
    """
    try:
        given = {
            "run": command,
            "folder": str(Path(folder).expanduser()),
            "size": sizes_of(shlex.split(sizes or "")),
            "steps": steps or None,
            "epochs": epochs or None,
            "through": through or None,
            "step_of": step_of or None,
            "samples": samples or None,
            "packages": packages or None,
            "data": data or None,
            "image": image or None,
            "processes": processes,
            "whole": whole,
            "repeats": repeats or None,
        }
        return await measured_own(OwnScript, given, hardware, budget_usd, results, shortlist=offers)
    except GridbenchError as error:  # a user's mistake is a sentence, without a traceback
        return Failed(message=str(error))
