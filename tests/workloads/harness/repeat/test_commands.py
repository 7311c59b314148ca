import pytest

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import Better, Serving
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


def test_a_server_is_called_by_our_own_load(suite_of):
    (entry,) = suite_of(
        'serve = "vllm serve {data} --port {port}"\ndata = "s3://models/a"\nslo = { ttft_p99_ms = 500 }\n'
        'size = { tokens = [64] }\nload = { output_tokens = "{tokens}", path = "/v1/chat/completions", '
        "body = { ignore_eos = true } }"
    ).entries
    assert entry.case.id == "vllm/tokens=64/own"
    program = entry.script.program
    assert program.serving == Serving(
        ("vllm", "serve", "{data}", "--port", "{port}"), "http://127.0.0.1:{port}/health", 600.0
    )
    assert entry.script.command == (
        *(
            "-m",
            "workloads.serving",
            "http://127.0.0.1:{port}/v1/chat/completions",
            "--promise=ttft_p99_ms=500",
        ),
        *("--seed={seed}", "--search-seconds={left_s}", "--output-tokens={tokens}"),
        '--body={"ignore_eos": true}',
    )
    assert [metric.name for metric in program.metrics] == ["output tokens/s", "requests/s"]


def test_a_server_can_have_another_client(suite_of):
    (entry,) = suite_of(
        'serve = "./simulate 80"\nready = "http://127.0.0.1:80/up"\nrun = "wrk -d {left_s}s http://127.0.0.1:80"'
    ).entries
    assert entry.case.workload == "simulate" and entry.script.command[0] == "wrk"


def test_a_command_without_an_estimate_is_assumed_to_take_its_time_limit(suite_of):
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
        ('run = "true"\nslo = { ttft_p99_ms = 5 }', "slo is given without serve"),
        ('run = "true {port}"', "{port} has no size"),
        ('serve = " "', "serve is empty"),
        ('serve = "x {port}"\nready = "127.0.0.1/health"', "ready is '127.0.0.1/health'; give an address"),
        ('serve = "x 80"', "serve and ready must both have {port}, or neither"),
        ('serve = "./absent {port}"\nslo = { ttft_p99_ms = 5 }', "the file './absent', which is missing"),
        ('serve = "x {port}"', "name a --promise to search its largest rate"),
        ('serve = "x {port}"\nslo = { ttft = 5 }', "'ttft=5' is not a promise"),
        ('serve = "x {port}"\nload = { rates = 5 }', "load has the unknown key 'rates'; known are body, "),
        ('serve = "x {port}"\nload = { rate = "a" }', "argument --rate: invalid float value: 'a'"),
        ('serve = "x {port}"\nload = { rate = 1, clients = 2 }', "not allowed with argument"),
        ('serve = "x {port}"\nload = { rate = 1, path = "v1" }', "path in load is 'v1'"),
    ],
)
def test_a_mistake_is_a_sentence(suite_of, table, sentence):
    with pytest.raises(WorkloadsError) as error:
        suite_of(table)
    assert sentence in str(error.value)
