import pytest

from workloads.__main__ import main


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["rn", "matmul"], "'rn' is unknown; did you mean run?"),
        (["compar", "a", "b"], "did you mean compare?"),
        (["run", "matmull", "--size", "n=64"], "workload 'matmull' is unknown; did you mean matmul?"),
        (["suite", "quik"], "suite 'quik' is unknown; did you mean quick?"),
        (["run", "matmul", "--size", "n=64", "--device", "cuad"], "'cuad' is unknown; did you mean cuda?"),
        (["run", "matmul", "--size", "n=64", "--profle"], "--profle is unknown; did you mean --profile?"),
        (["suite", "quick", "--repeat-s=3"], "--repeat-s=3 is unknown; did you mean --repeats?"),
        (["run", "matmul", "--sizes=n=64"], "--sizes is unknown, did you mean --size?"),
        (["xyzzy"], "there are list, run, script, command, suite, model"),
    ],
)
def test_the_nearest_name_is_suggested(capsys, words, suggestion):
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr().err
    assert code == 2 and suggestion in said and "needs" not in said.rpartition("is unknown")[2]


def test_a_script_keeps_options_that_the_command_does_not_know():
    from workloads.command.parser import parser

    options = parser("").parse_args(["script", "--steps", "10", "--", "train.py", "--lr", "1"])
    assert options.words[-3:] == ["train.py", "--lr", "1"]
