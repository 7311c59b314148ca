"""Start-up of the command line: help and a dry run, over the start of Python with Typer."""

import statistics
import subprocess
import sys
import time

PROGRAM = "import sys; from gridbench.main import app; app(sys.argv[1:], standalone_mode=False)"
BARE = "import typer, rich.table"
COMMANDS = {"--help": ("--help",), "run quick --dry-run": ("run", "quick", "--dry-run")}
REPEATS = 7


def main() -> None:
    """Print each command's median seconds and its ratio to a bare start, taken in turns."""
    codes = {"python, typer, rich": (BARE,)} | {name: (PROGRAM, *words) for name, words in COMMANDS.items()}
    times_s = {name: [] for name in codes}
    for _ in range(REPEATS):
        for name, words in codes.items():
            times_s[name].append(_seconds(words))
    bare_s = statistics.median(times_s["python, typer, rich"])
    for name, seconds in times_s.items():
        print(
            f"start-up: {name:24} {statistics.median(seconds):.2f} s, {statistics.median(seconds) / bare_s:.1f}×"
        )


def imports(*words: str) -> str:
    """Return a command's slowest imports, by `-X importtime`."""
    command = [sys.executable, "-X", "importtime", "-c", PROGRAM, *words]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    timed = [line for line in lines if line.startswith("import time:") and "cumulative" not in line]
    return "\n".join(sorted(timed, key=lambda line: -int(line.split("|")[1]))[:20])


def _seconds(words: tuple[str, ...]) -> float:
    started_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", *words], capture_output=True, check=True)
    return time.perf_counter() - started_s


if __name__ == "__main__":
    if sys.argv[1:]:
        print(imports(*sys.argv[1:]))
    else:
        main()
