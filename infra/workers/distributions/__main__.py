"""Build the workers' distributions: `python -m infra.workers.distributions [--out dist]`.

This needs setuptools and pip, and downloads nothing. Each wheel is built from the source distribution.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.workers.distributions.layout import DISTRIBUTIONS, Distribution, lay

SDIST = "import sys; from setuptools.build_meta import build_sdist; print(build_sdist(sys.argv[1]))"
WHEEL = ("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")


def build(distribution: Distribution, out: Path, tests: Path | None = None) -> tuple[Path, Path]:
    """Return the source distribution and the wheel.

    The source distribution gets those of the workers' `tests` that need only the package.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        project, wheels = Path(folder) / distribution.name, Path(folder) / "wheels"
        lay(distribution, project, tests)
        command = [sys.executable, "-c", SDIST, str(out.resolve())]
        done = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
        sdist = out / done.stdout.split()[-1]
        command = [sys.executable, "-m", *WHEEL, "--wheel-dir", str(wheels), str(sdist)]
        subprocess.run(command, check=True)
        (wheel,) = wheels.iterdir()
        target = out / wheel.name
        target.write_bytes(wheel.read_bytes())
    return sdist, target


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.workers.distributions")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder of the built files")
    parser.add_argument(
        "--tests", type=Path, help="folder of the workers' tests to add to the source distributions"
    )
    options = parser.parse_args(arguments)
    for distribution in DISTRIBUTIONS:
        for path in build(distribution, options.out, options.tests):
            print(path)


if __name__ == "__main__":
    main()
