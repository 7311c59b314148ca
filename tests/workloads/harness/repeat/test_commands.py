"""Commands in a suite: the meaning of a table, and one sentence for each mistake in it."""

import pytest

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import Better
from workloads.harness.repeat.suite import load_suite


@pytest.fixture
def suite_of(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "simulate").write_text("")

    def load(table):
        (tmp_path / "mine.toml").write_text(f'[[commands]]\nfolder = "code"\n{table}\n')
        return load_suite(str(tmp_path / "mine.toml"))

    return load


def test_every_combination_of_sizes_is_a_case_with_its_command(suite_of, tmp_path):
    suite = suite_of(
        'run = "./simulate --cells {cells} --seed {seed}"\nsize = { cells = [8, 16], threads = 2 }\n'
        'env = { OMP_NUM_THREADS = "{threads}" }\nwarm_ups = 1\nestimate_s = 5\n'
        'metrics = ["cells/s: rate ([0-9.]+)", "error (lower): json error"]'
    )
    assert [case.id for case in suite.cases] == [
        "simulate/cells=8,threads=2/own",
        "simulate/cells=16,threads=2/own",
    ]
    script = suite.entries[0].script
    assert (script.folder, script.command[0]) == (str(tmp_path / "code"), "./simulate")
    program = script.program
    assert (program.warm_ups, program.env) == (1, (("OMP_NUM_THREADS", "{threads}"),))
    assert [(metric.name, metric.better) for metric in program.metrics] == [
        ("cells/s", Better.HIGHER),
        ("error", Better.LOWER),
    ]
    assert suite.entries[0].estimate_s == 5 and hash(script)


def test_a_command_can_take_all_of_its_time_if_nobody_says_how_long_it_takes(suite_of):
    (entry,) = suite_of('run = "true"').entries
    assert entry.estimate_s == 600 and entry.assumed


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("", "a command lacks the key run"),
        ('run = "./absent"', "run names the file './absent', which is missing"),
        ('run = "../code/simulate"\nsteps = 3', "unknown key 'steps'"),
        ('run = "true {n}"', "{n} has no size"),
        ('run = "true"\nsize = { n = 1 }', "size n is given, but run lacks its placeholder {n}"),
        ('run = "true"\nmetrics = ["s"]', "metric 's' is not of the form NAME: PATTERN"),
        ('run = "true"\nmetrics = ["s: (a)", "s: (b)"]', "with different names"),
        ('run = "true"\nenv = { HF_TOKEN = "x" }', "env has HF_TOKEN, which looks like a secret"),
        ('run = "true"\nenv = { PGPASSWORD = "x" }', "env has PGPASSWORD, which looks like a secret"),
        ('run = "true"\nenv = { A = 1 }', "env has A = 1; give texts by name"),
        ('run = "true"\nwarm_ups = 1000', "warm_ups=1000 must be at most 100"),
        ('run = "true {seed}"\nsize = { seed = 1 }', "size 'seed' is a reserved name"),
        ('run = "matmul"', "is the name of a workload"),
    ],
)
def test_a_mistake_is_a_sentence(suite_of, table, sentence):
    with pytest.raises(WorkloadsError) as error:
        suite_of(table)
    assert sentence in str(error.value)
