from tests.benchmarks.instant import main
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict


def test_an_instant_engine_answers_with_a_record_of_the_repeat():
    words = (
        "run gemm --run=r --hardware=here --size=m=4,n=8,k=2 --precision=bf16 --repeat=2 --order=5 --seed=3"
    )
    record = Record.from_json(main(words.split()))
    assert record.case == Case.of("gemm", {"m": 4, "n": 8, "k": 2}, "bf16")
    assert (record.verdict, record.repeat, record.order, record.seed) == (Verdict.OK, 2, 5, 3)
    assert record.mean_s and 1e-3 < record.mean_s < 1.1e-3
