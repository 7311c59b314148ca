"""A `docker` for tests: podman that builds no image and pushes to the emulated ECR."""

import json
import os
import subprocess
import sys
from pathlib import Path

import boto3

IMAGE = os.environ[
    "GRIDBENCH_TEST_IMAGE"
]  # what every build comes out as; it is built for real in other tests
LOG = Path(os.environ["GRIDBENCH_TEST_ENGINE_LOG"])


def push(target):
    """[doc] A push makes the image known to its repository: docs.docker.com/reference/cli/docker/image/push"""
    described = json.loads(subprocess.check_output(["podman", "image", "inspect", target]))[0]
    name, _, tag = target.partition("/")[2].rpartition(":")
    manifest = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"digest": described["Id"]},
    }
    boto3.client("ecr").put_image(
        repositoryName=name,
        imageTag=tag,
        imageManifest=json.dumps(manifest),
        imageDigest=described["Digest"],
    )


def main(arguments):
    with LOG.open("a") as log:
        log.write(json.dumps(arguments) + "\n")
    if arguments == ["info"]:
        return
    if arguments[0] == "login":
        assert sys.stdin.read().strip(), "the password comes by standard input"
    elif arguments[0] == "push":
        push(arguments[1])
    elif arguments[0] == "build":
        assert (Path(arguments[-1]) / "Dockerfile").is_file()
        subprocess.check_call(["podman", "tag", IMAGE, arguments[arguments.index("--tag") + 1]])
    else:
        os.execvp("podman", ["podman", *arguments])


main(sys.argv[1:])
