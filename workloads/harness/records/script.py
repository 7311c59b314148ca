"""A user's own command as a case: what is run, and what was seen of it."""

import re
from dataclasses import dataclass, field

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import Program, ProgramRun

OWN = "own"  # precision of a case whose script chooses its own
DATA = "data"  # the placeholder of a folder, where those of sizes are numbers
PLACE = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
STEPS_OF = ("backward", "forward", "loader", "mark")  # what can end a step, apart from an optimizer
STEP_OF = re.compile(r"([A-Za-z_]\w*)(?::([1-9]\d{0,5}))?")  # such as AdamW, Adam:2, loader


@dataclass(frozen=True, slots=True)
class Script:
    """A user's own command, which is measured unchanged.

    Attributes:
        command: what follows `python`: a file, or `-m` and a module, and its arguments. `{name}` stands for
            the value of a size, `{data}` for `data`.
        folder: where it runs, absolute; a lane on another machine puts its copy of the code there.
        code: id of the tree that the folder is in, `sha256:` and hexadecimal digits; empty where nobody
            took it.
        dirty: the tree has changes that are in no commit.
        packages: the file in the folder that names its packages: `requirements.txt`, `pyproject.toml` or
            `uv.lock`; None takes the packages that are there.
        data: a folder of the machine that measures, or an `s3://` address that is copied there; None where
            the script brings its own.
        steps, epochs: length of the whole job that is to be predicted; at most one is given.
        through: steps or epochs, in the unit of the job's length, that are measured before it is predicted.
        step_of: ends a step: the class of an optimizer (`Adam:2` is the second Adam that steps), `backward`,
            `forward`, `loader` or `mark`; None finds it.
        samples: in a step, of all ranks; None finds them.
        processes: ranks that train together, as under torchrun.
        whole: let it run to its end, untouched, in place of stopping it once it is measured.
        keep: the folder, of the machine that measures, that gets the files that it writes; None for no folder.
        in_place: it runs in its folder itself, not in a copy.
        image: the container image that it is measured in; None for the machine's own.
        program: how any other program's numbers are found, whose words are in `command`; None for Python's.
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
        """Check the numbers and the words that say what a step and the job are.

        Raises:
            WorkloadsError: one is wrong, or contradicts another.
        """
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
        """Return what is known of a run whose process left nothing."""
        run = ProgramRun() if self.program else None
        counted = "call" if self.program else "optimizer"
        return ScriptRun(self.command, self.code, self.dirty, counted, ended="died", program=run)


@dataclass(frozen=True, slots=True)
class JobTime:
    """Time of a script's whole job, from the start of its process to its end.

    Attributes:
        steps: of the whole job; 0 if it ran to its end and its step is unknown.
        epochs: of it, where the script's loader tells how long one is.
        seconds, low_s, high_s: predicted, with the 95 % interval; all three alike where it ran to its end.
        measured: True if it ran to its end.
        left_out: parts of the job that were never seen, which the time does not hold: it takes at least `low_s`.
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
        place: `copy` if it ran in a copy of its folder, which is gone; `folder` if in the folder itself.
        written: number of files that it made or changed in its copy; None in the folder itself.
        names: of the first of them, from the folder on.
        linked: files that were links to the user's, because they are too large to copy or look like secrets; folders
            with such links, because they are too much to copy; links that lead out of the folder.
        changed: files of the user's own folder that have changed while it ran in a copy, the first of them.
        kept: the folder that got the files that it wrote; empty if none did.
    """

    place: str = "copy"
    written: int | None = None
    names: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: str = ""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """Observations of a user's own command; the times of its steady step are the record's `wall`.

    Attributes:
        command: the words that ran, sizes filled in.
        code, dirty: the tree that they came from, as in `Script`.
        counted: what a step is: `call` (of any program), `optimizer`, `backward` (a backward call, in which optimizers
            step), `forward` (the outermost one of a script that trains nothing), `loader` (a batch) or `mark` (the
            script says it).
        step_of: the declaration that gives the same steps, as in `Script`; empty in older records.
        steps: seen in all, cold ones among them.
        optimizers: names of the classes that stepped.
        optimizer_steps: of each optimizer in a step, by its class and number; empty if there is one.
        accumulation: backward calls in a step; None where there are none.
        samples, tokens: in a step, of all ranks; None if they are unknown or differ, `tokens` also if the input is
            not token ids.
        samples_from: `loader`, `model` (its calls) or `declared`; empty without samples.
        doubts: numbers that are missing and why, with the option that states them.
        losses: of the first backward call of each of the first steps, in order, as the script called it, before any
            scaling. With accumulation, many scripts divide them by the number of these calls.
        shares: parts of a steady step that add up to 1: `loader`, `copy`, `launch`, `communication`,
            `compute` and `other`; only those that were seen.
        mean_s, mean_low_s, mean_high_s: seconds of a step over the wall, with evaluation, checkpoints and the
            ends of epochs between steps, and the 95 % interval; None where too few steps were seen.
        first_step_s: seconds from the start of the process to the end of the first step.
        epoch_steps: steps of an epoch, where the script's loader tells.
        job: None where no length was asked for and it did not run to its end.
        memory_left_bytes: of the device, or of the host on a CPU, at the peak.
        ended: `stopped` once it was measured, `finished` by itself, or `died` with its process.
        exit_code: of a script that finished.
        installed_packages: what was installed for it beside what was there, as `name==version`.
        image: the user's container image that it ran in; empty for the machine's own.
        files: that it wrote, and their place; None in records of earlier versions.
        program: calls and numbers of any other program; None for a Python script.
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
