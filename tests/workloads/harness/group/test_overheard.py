import subprocess
import sys

from workloads.harness.group.launch import overheard


def test_lines_of_children_are_passed_on_and_the_last_are_kept(capfd):
    script = "import sys; [print(f'line {n}', file=sys.stderr) for n in range(9)]"
    with overheard() as last_words:
        subprocess.run([sys.executable, "-c", script], check=True)
    print("after it", file=sys.stderr)
    assert last_words == [f"line {n}" for n in range(4, 9)]
    assert capfd.readouterr().err.splitlines() == [*(f"line {n}" for n in range(9)), "after it"]
