"""Steps that keep a flow's bundle in the Prefect API, which the worker and every container reach.

`python -m … --do upload --key KEY FILE` puts a bundle there, `--do execute --key KEY` runs it.
"""

import argparse
import asyncio
import json
import urllib.request
from pathlib import Path

from prefect.bundles.execute import execute_bundle
from prefect.settings import PREFECT_API_URL


def post(path: str, content: dict) -> list | dict:
    request = urllib.request.Request(
        f"{PREFECT_API_URL.value()}/artifacts/{path}",
        json.dumps(content).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--do", choices=("upload", "execute"), required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("file", nargs="?")
    options = parser.parse_args()
    if options.do == "upload":
        post("", {"key": options.key, "type": "bundle", "data": Path(options.file).read_text()})
    else:
        artifact = post("filter", {"artifacts": {"key": {"any_": [options.key]}}})[0]
        asyncio.run(execute_bundle(json.loads(artifact["data"])))


if __name__ == "__main__":
    main()
