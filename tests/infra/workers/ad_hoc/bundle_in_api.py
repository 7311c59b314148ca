"""Steps that keep a flow's bundle in the Prefect API, or in a folder.

`python -m … --do upload --key KEY FILE` puts a bundle there, `--do execute --key KEY` runs it; `--folder`
names the folder, for a box, which reaches no artifact.
"""

import argparse
import asyncio
import json
from pathlib import Path

from prefect.bundles.execute import execute_bundle
from prefect.client.orchestration import get_client


def post(path: str, content: dict) -> list | dict:
    with get_client(sync_client=True) as client:  # with its auth string and its token against forged requests
        return client.request("POST", f"/artifacts/{path}", json=content).raise_for_status().json()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--do", choices=("upload", "execute"), required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("file", nargs="?")
    options = parser.parse_args()
    kept = options.folder and options.folder / Path(options.key).name
    if kept and options.do == "upload":
        kept.write_bytes(Path(options.file).read_bytes())
    elif kept:
        asyncio.run(execute_bundle(json.loads(kept.read_text())))
    elif options.do == "upload":
        post("", {"key": options.key, "type": "bundle", "data": Path(options.file).read_text()})
    else:
        artifact = post("filter", {"artifacts": {"key": {"any_": [options.key]}}})[0]
        asyncio.run(execute_bundle(json.loads(artifact["data"])))


if __name__ == "__main__":
    main()
