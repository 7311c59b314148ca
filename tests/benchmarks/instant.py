"""A replacement of `python -m workloads` that answers at once, so that only orchestration takes time.

It imports nothing: ten thousand calls would take most of an hour. `--sleep` is the pretended time.
"""

import sys
import time


def main(words: list[str]) -> str:
    """Return a repeat's record in JSON, of realistic size."""
    options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    time.sleep(float(options.get("sleep", 0)))
    workload = words[words.index("run") + 1]
    size = ",".join('["{}",{}]'.format(*part.split("=", 1)) for part in options["size"].split(","))
    order = int(options["order"])
    samples = ",".join(repr(1e-3 + number * 1e-8 + order * 1e-11) for number in range(300))
    middle_s = 1e-3 + 149.5e-8 + order * 1e-11
    wall = (
        f'{{"samples_s":[{samples}],"block":1,"median_s":{middle_s!r},"ci_low_s":{middle_s - 1e-7!r},'
        f'"ci_high_s":{middle_s + 1e-7!r},"p95_s":{middle_s!r},"max_s":{1.1e-3!r},"outliers_mild":0,'
        '"outliers_severe":0,"steady":true,"precision_reached":true}'
    )
    started_at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    return (
        f'{{"run":"{options["run"]}","hardware":"{options["hardware"]}",'
        f'"case":{{"workload":"{workload}","size":[{size}],"precision":"{options["precision"]}"}},'
        f'"repeat":{options["repeat"]},"verdict":"ok","schema":5,"order":{order},"seed":{options["seed"]},'
        f'"started_at":"{started_at}","threads":1,"wall":{wall}}}'
    )


if __name__ == "__main__":
    print(main(sys.argv[1:]))
