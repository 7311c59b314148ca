"""A user's command as a case, and the observations of its run."""

import re
from dataclasses import dataclass, field

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import Program, ProgramRun

OWN = "own"  # precision of a case whose script chooses its own
DATA = "data"  # the placeholder of a folder; those of sizes are numbers
PLACE = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
STEPS_OF = ("backward", "forward", "loader", "mark")  # ends of a step other than an optimizer
STEP_OF = re.compile(r"([A-Za-z_]\w*)(?::([1-9]\d{0,5}))?")  # such as AdamW, Adam:2, loader


@dataclass(frozen=True, slots=True)
class Script:
    """A user's command, which is measured unchanged.

    Attributes:
        command: the words after `python`. `{name}` stands for a size's value, `{data}` for `data`.
        folder: its working folder, absolute; on another machine, a lane sets its copy.
        code: id of the folder's source tree, `sha256:` and hexadecimal digits; empty without one.
        dirty: the tree has uncommitted changes.
        packages: the folder's `requirements.txt`, `pyproject.toml` or `uv.lock`; None uses the installed
            packages.
        data: a folder of the measuring machine, or an `s3://` address that is copied there.
        steps, epochs: length of the job to predict, by at most one of them.
        through: steps or epochs, in the unit of the job's length, to measure before the prediction.
        step_of: ends a step: an optimizer's class (`Adam:2` is the second Adam that steps), `backward`,
            `forward`, `loader` or `mark`; None finds it.
        samples: in a step, of all ranks; None finds them.
        processes: ranks that train together, as under torchrun.
        whole: run it to its end, unwatched.
        keep: the measuring machine's folder for its files, if any.
        in_place: run in its folder itself, not in a copy.
        program: the numbers of any other program, whose words `command` has.
    """

    command: tuple[str, ...]
    folder: str = "."
    code: str = ""
    dirty: bool = False
    packages: str | None = None
    data: str | None = None
    steps: int | None = None
    epochs: int | None = None
    through: int | None = None
    step_of: str | None = None
    samples: int | None = None
    processes: int = 1
    whole: bool = False
    keep: str | None = None
    in_place: bool = False
    image: str | None = None
    program: Program | None = None

    def check(self) -> None:
        for name in ("steps", "epochs", "through", "samples", "processes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise WorkloadsError(f"{name}={value} must be a whole number above 0")
        if self.steps and self.epochs:
            raise WorkloadsError(f"steps={self.steps} and epochs={self.epochs} are both given; give one")
        length = self.steps or self.epochs
        if self.through and not length:
            raise WorkloadsError(f"through={self.through} needs the length of the job; give steps or epochs")
        if self.through and length and self.through > length:
            unit = "steps" if self.steps else "epochs"
            raise WorkloadsError(f"through={self.through} is longer than the job, {unit}={length}")
        if self.step_of is not None and not STEP_OF.fullmatch(self.step_of):
            words = ", ".join(STEPS_OF)
            raise WorkloadsError(
                f"step_of={self.step_of!r} must be the class of an optimizer, such as AdamW or Adam:2, or {words}"
            )

    def died(self) -> "ScriptRun":
        run = ProgramRun() if self.program else None
        counted = "call" if self.program else "optimizer"
        return ScriptRun(self.command, self.code, self.dirty, counted, ended="died", program=run)


@dataclass(frozen=True, slots=True)
class JobTime:
    """Time of a script's whole job, from process start to end.

    Attributes:
        steps: 0 if it ran to its end with an unknown step.
        epochs: if the loader shows their length.
        seconds, low_s, high_s: prediction with 95 % interval; equal if it ran to its end.
        measured: it ran to its end.
        left_out: parts that were never seen, so it takes at least `low_s`.
    """

    steps: int
    seconds: float
    low_s: float
    high_s: float
    epochs: int | None = None
    measured: bool = False
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptFiles:
    """Files of a script's run.

    Attributes:
        place: `copy` if it ran in a temporary copy of its folder, else `folder`.
        written: number of files made or changed in the copy; None in the folder itself.
        names: of the first of them, relative to the folder.
        linked: not copied: large files, secrets, large folders, links that lead out of the folder.
        changed: the first of the user's files that changed while the script ran in a copy.
    """

    place: str = "copy"
    written: int | None = None
    names: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: str = ""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """Observations of a user's command; its step's times are the record's `wall`.

    Attributes:
        command: the words that ran, sizes filled in.
        counted: kind of a step: `call` (of any program), `optimizer`, `backward` (with optimizers that step
            inside it), `forward` (without a training), `loader` (a batch) or `mark` (by the script's own
            calls).
        step_of: the declaration of the same steps, as in `Script`; empty in older records.
        steps: all that were seen, cold ones included.
        optimizer_steps: in a step, by class and number; empty for one optimizer.
        accumulation: backward calls in a step; None without any.
        samples, tokens: in a step, of all ranks; None if unknown or varying, `tokens` also without token ids.
        samples_from: `loader`, `model` (its calls) or `declared`; empty without samples.
        doubts: missing numbers, reasons, and the options that state them.
        losses: of the first backward call of each of the first steps, unscaled. With accumulation, many
            scripts divide the loss by the number of calls.
        shares: parts of a steady step, which add up to 1: `loader`, `copy`, `launch`, `communication`,
            `compute`, `other`.
        mean_s, mean_low_s, mean_high_s: wall seconds per step with 95 % interval, including evaluation,
            checkpoints and ends of epochs; None with too few steps.
        first_step_s: from the start of the process to the end of the first step.
        epoch_steps: by the script's loader.
        job: None without a given length, unless it ran to its end.
        memory_left_bytes: at the peak, of the device, or of the host on a CPU.
        ended: `stopped` once measured, `finished` by itself, or `died` with its process.
        exit_code: of a script that finished.
        installed_packages: additional ones, as `name==version`.
        image: its container image; empty for the machine's own environment.
        files: None in older records.
        program: None for Python.
    """

    command: tuple[str, ...]
    code: str = ""
    dirty: bool = False
    counted: str = "optimizer"
    step_of: str = ""
    steps: int = 0
    optimizers: tuple[str, ...] = ()
    optimizer_steps: dict[str, float] = field(default_factory=dict)
    accumulation: float | None = None
    samples: int | None = None
    tokens: int | None = None
    samples_from: str = ""
    doubts: tuple[str, ...] = ()
    losses: tuple[float, ...] = ()
    shares: dict[str, float] = field(default_factory=dict)
    mean_s: float | None = None
    mean_low_s: float | None = None
    mean_high_s: float | None = None
    first_step_s: float | None = None
    epoch_steps: int | None = None
    job: JobTime | None = None
    memory_left_bytes: int | None = None
    ended: str = "stopped"
    exit_code: int | None = None
    installed_packages: tuple[str, ...] = ()
    image: str = ""
    files: ScriptFiles | None = None
    program: ProgramRun | None = None
