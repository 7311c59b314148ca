import pytest

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import metric_of
from workloads.harness.script.metrics import value_of

VLLM = """INFO 11-02 09:14:51 [llm.py:355] Supported tasks: ['generate']
Processed prompts: 100%|##########| 1000/1000 [00:41<00:00, 24.05it/s]
Throughput: 23.98 requests/s, 11010.52 total tokens/s, 5252.31 output tokens/s
"""
NCCL = """# Out of bounds values : 0 OK
#       size         count      type   redop    root     time   algbw   busbw #wrong
   536870912     134217728     float     sum      -1   2216.1  242.26  423.96      0
# Avg bus bandwidth    : 423.957
#
"""
LLAMA = """[
  {"model_type": "llama 7B Q4_0", "n_prompt": 512, "n_gen": 0, "avg_ts": 7100.002384, "stddev_ts": 140.3},
  {"model_type": "llama 7B Q4_0", "n_prompt": 0, "n_gen": 128, "avg_ts": 118.881588, "stddev_ts": 1.04}
]"""
LLAMA_CSV = """model_type,n_prompt,n_gen,avg_ts
"llama 7B Q4_0",512,0,7100.002384
"llama 7B Q4_0",0,128,118.881588
"""
SGLANG = """====== Offline Throughput Benchmark Result =======
Backend:                                 engine
Successful requests:                     1000
Benchmark duration (s):                  37.41
Last generation throughput (tok/s):      29.40
Output token throughput (tok/s):         5312.75
"""
HYPERFINE = '{"results": [{"command": "./nbody", "mean": 0.5104, "stddev": 0.003, "times": [0.51, 0.51]}]}'


def read(text, output, errors="", files=None):
    return value_of(metric_of(text), (output, errors), (files or {}).__getitem__).value


@pytest.mark.parametrize(
    ("text", "output", "number"),
    [
        ("tokens/s: ([0-9.]+) output tokens/s", VLLM, 5252.31),
        ("requests/s: Throughput: ([0-9.]+)", VLLM, 23.98),
        ("bus bandwidth (GB/s): Avg bus bandwidth +: ([0-9.]+)", NCCL, 423.957),
        ("prompt (tokens/s): json 0.avg_ts", LLAMA, 7100.002384),
        ("generation (tokens/s): csv 1.avg_ts", LLAMA_CSV, 118.881588),
        ("tokens/s: ^Output token throughput \\(tok/s\\): +([0-9.]+)", SGLANG, 5312.75),
        ("time (s): json results.mean", HYPERFINE, 0.5104),
        ("time (s): json results.0.times.1", f"warm-up done\n{HYPERFINE}\n", 0.51),
        ("loss (lower): loss (\\S+)", "loss -1.5e-3", -0.0015),
        ("cells/s: rate (\\S+)", "rate 1,234,567.5", 1234567.5),
        ("hit rate (%, higher): hits (\\S+)", "hits 93.5%", 93.5),
        ("s: csv a.b", "a.b,c\n3,4\n", 3.0),
    ],
)
def test_a_number_is_read_from_the_output(text, output, number):
    assert read(text, output) == number


def test_the_errors_are_searched_if_the_output_has_no_match():
    assert read("s: took (\\d+)", "done", "took 3 s") == 3
    assert read("s: took (\\d+)", "took 2 s", "took 3 s") == 2
    assert read("s: in out.txt: took (\\d+)", "took 2 s", files={"out.txt": "took 4 s"}) == 4


@pytest.mark.parametrize(
    ("text", "output", "sentence"),
    [
        ("s: took (\\d+)", "", "metric s is not in the output: the pattern took (\\d+) matches nothing"),
        ("s: took (\\d+)", "took 1, took 2", "metric s is in the output 2 times (1, 2): make the pattern"),
        ("s: took (\\d)", "took 1 took 2 took 3 took 4", "4 times (1, 2, 3, …)"),
        ("tokens/s: csv avg_ts", LLAMA_CSV, "2 times (7100.002384, 118.881588): make csv avg_ts match one"),
        ("s: json a.b", '{"a": {}}', "json a.b matches nothing"),
        ("s: json a", "nothing of it", "matches nothing: it is not JSON"),
        ("s: json a", '{"a": true}', "metric s is 'True', which is not a number"),
        ("s: took (\\w+)", "took nan", "metric s is 'nan', which is not a number"),
        ("s: took (\\S+)", "took 1.2.3", "is '1.2.3', which is not a number"),
        ("s: took (\\S+)", "took 1e999", "is '1e999', which is not a number"),
    ],
)
def test_a_metric_that_is_not_clear_is_a_sentence(text, output, sentence):
    with pytest.raises(WorkloadsError) as error:
        read(text, output)
    assert sentence in str(error.value)
