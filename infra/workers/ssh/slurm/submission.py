"""The command line that submits a job to Slurm."""

import math

from ...base.job_configuration import JobRefused
from ..configuration import SlurmRequest, SshJobConfiguration

END_S = 60  # beyond timeout_s: for the connection to the API, and for the processes to end by themselves
SECONDS_PER_MINUTE = 60  # Slurm counts a job's time in minutes


def submission(
    configuration: SshJobConfiguration, request: SlurmRequest, name: str, folder: str
) -> tuple[str, ...]:
    """Return the options of `sbatch`; `JobRefused` for a requirement without one.

    The job leaves the queue by itself after `wait_s` even without a worker, and is never requeued: a second
    start would do its work twice. Compute nodes share `folder`.
    """
    minutes = limit_minutes(configuration.timeout_s)
    patience_s = configuration.wait_s + minutes * SECONDS_PER_MINUTE
    options = [
        *("--parsable", f"--job-name={name}", "--no-requeue", "--nodes=1", "--ntasks=1"),
        *(f"--time={minutes}", f"--deadline=now+{patience_s}seconds"),
        *(f"--chdir={folder}", f"--output={folder}/log", "--open-mode=append", "--input=/dev/null"),
        *("--export=NONE", "--mail-type=NONE"),
    ]
    for option in ("partition", "account", "qos", "constraint", "reservation"):
        if (value := getattr(request, option)) is not None:
            options.append(f"--{option}={value}")
    return (*options, *_resources(configuration, request))


def limit_minutes(timeout_s: int) -> int:
    """Return Slurm's limit, late enough for the job's own sentence and last lines."""
    return math.ceil((timeout_s + END_S) / SECONDS_PER_MINUTE)


def _resources(configuration: SshJobConfiguration, request: SlurmRequest) -> list[str]:
    options = ["--exclusive"] if request.exclusive else []
    if configuration.memory_mib:
        options.append(f"--mem={configuration.memory_mib}M")
    elif request.exclusive:
        options.append("--mem=0")  # all of the node's
    if request.cpus:
        options.append(f"--cpus-per-task={request.cpus}")
    if configuration.gpus:
        if not isinstance(configuration.gpus, int):
            raise JobRefused(f"gpus is {configuration.gpus!r}: Slurm needs a number, such as 1.")
        kind = f"{request.gpu_type}:" if request.gpu_type else ""
        options.append(f"--gres=gpu:{kind}{configuration.gpus}")
    elif request.gpu_type:
        raise JobRefused(f"slurm.gpu_type is {request.gpu_type}, but gpus is 0: set the number of GPUs.")
    return options
