"""A handmade run for tests of scaling: steps and epochs on 1 to 8 devices, jobs, and many more cases."""

from dataclasses import replace

from tasks.findings.compare import compare
from tasks.results.comparison import Comparison
from tasks.results.model import Machine
from tests.tasks.examples.group_records import BOX, epoch, job, profiled, steps, whole
from tests.tasks.examples.records import failed, record
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Training
from workloads.harness.records.record import Memory, Record, Verdict, Work

OTHER = "cpu-box"
MACHINES = (
    Machine(BOX, 20.0, "stated assumption", 8, (("fp32", 67e12),), 4e12),
    Machine(OTHER, 1.0, "stated assumption"),
)
MODELS = {"mnist": 1_199_882, "cifar10": 62_006, "gcn": 23_063, "resnet_train": 11_181_642}
TOO_LARGE = "32 GiB are needed, the machine has 16 GiB; try a smaller batch"


def models() -> list[Record]:
    made = []
    for place, (name, parameters) in enumerate(MODELS.items()):
        for hardware, seconds in ((BOX, 0.002 * (place + 1)), (OTHER, 0.05 * (place + 1))):
            for repeat in range(3):
                made += _model(name, parameters, hardware, seconds * (1 + 0.004 * repeat), repeat)
    return made


def _model(name: str, parameters: int, hardware: str, seconds: float, repeat: int) -> list[Record]:
    on = {"device": "cuda" if hardware == BOX else "cpu"}
    work = Work(64, "images", 1e9, 1e6, parameters=parameters)
    training = Training(2.3, 0.41)
    step = record(seconds, Case.of(name, {"batch": 64}), hardware, repeat, work=work, training=training, **on)
    losses = tuple(2.3 * 0.995**i for i in range(900))
    trained = Training(losses[0], losses[-1], losses, (), "accuracy", 0.981, 0.97)
    case = Case.of(f"{name}_job", {"epochs": 1, "samples": 57_600, "batch": 64})
    epoch_of = replace(
        job(seconds * 900, 1, 28_800, repeat),
        hardware=hardware,
        case=case,
        group=None,
        work=Work(57_600, "images", 9e11, 1e9, parameters=parameters),
        training=trained,
        wall=whole(seconds * 900),
        memory=Memory(2**30),
        **on,
    )
    return [profiled(step, seconds * 8) if hardware == BOX else step, epoch_of]


def ceilings() -> list[Record]:
    made = [
        record(mib * 2e-5, Case.of("memory_bandwidth", {"mib": mib}), OTHER, repeat, work=work)
        for mib in (64, 256, 1024)
        for repeat in range(3)
        for work in (Work(mib * 2**20, "bytes", 0.0, 2.0 * mib * 2**20),)
    ]
    skipped = Case.of("memory_bandwidth", {"mib": 65_536})
    return [*made, failed(Verdict.SKIPPED, TOO_LARGE, skipped, OTHER)]


def crowd() -> list[Record]:
    return [
        record(1e-3 * size * (1 + w / 20), Case.of(f"work_{w:02}", {"n": size}), hardware, repeat, work=work)
        for w in range(20)
        for size in (1, 2, 4, 8)
        for hardware in (BOX, OTHER)
        for repeat in range(2)
        for work in (Work(1, "steps", 1e8 * size, 1e6 * size),)
    ]


def run(many: bool = False) -> tuple[list[Record], Comparison]:
    made = [*steps(), *epoch(), *models(), *ceilings(), *(crowd() if many else ())]
    return made, compare(made, MACHINES, OTHER)
