"""Images over the SSH connection."""

import asyncio
import contextlib
import logging
import re
import shlex
import time
from typing import Any

import asyncssh

from ..base.job_configuration import JobRefused
from .answers import Facts, text_of, words_of
from .box import BUSY, BoxBusy, SshBox
from .check import has_image
from .configuration import SshJobConfiguration
from .connection import ANSWER_S, LOST, BoxUnreachable, answer_of, error_text

CHUNK_BYTES = 1024 * 1024
LOAD_S = 1800  # for a box to unpack an uploaded image
LAST_S = 5  # for `save` to end by itself, after its last byte
IMAGES = "images"  # the ids here of our images on a box


async def stream(
    box: SshBox, configuration: SshJobConfiguration, facts: Facts, log: "logging.LoggerAdapter[Any]"
) -> None:
    """Upload the worker's image, unless the box has it.

    `JobRefused` if the worker does not have it or the box refuses it; `BoxBusy` and `BoxUnreachable` can
    pass.
    """
    image = str(configuration.image)
    ours, size_bytes = await _here(configuration, image)
    if has_image(facts) and await box.marked(IMAGES, ours) == facts["image"][0]:
        return
    text = "Sending image %s, %.1f GB, to the box over the SSH connection; a rented box is billed meanwhile."
    log.info(text, image, size_bytes / 1e9)
    began = time.monotonic()
    await _send(box, configuration, image)
    log.info("Image %s was sent in %.0f s.", image, time.monotonic() - began)
    image_id = (await box.check(image)).get("image", [""])[0]
    if not image_id:
        text = f"image {image} was sent, but the box does not have it under this name."
        raise JobRefused(text, "ImagePullFailed")
    await box.mark(IMAGES, ours, image_id)


async def _here(configuration: SshJobConfiguration, image: str) -> tuple[str, int]:
    command = [*configuration.stream_command, "image", "inspect", "-f", "{{.Id}} {{.Size}}", image]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        program = f"stream_command {shlex.join(configuration.stream_command)}"
        raise JobRefused(f"{program} can't be run by the worker ({error_text(error)}).", "Unfit") from None
    output, errors = await process.communicate()
    if process.returncode:
        raise JobRefused(f"The worker does not have image {image} ({words_of(errors)}).", "ImagePullFailed")
    name, size = text_of(output).split()
    return re.sub(r"[^0-9a-f]", "", name.rpartition(":")[2]), int(size)


async def _send(box: SshBox, configuration: SshJobConfiguration, image: str) -> None:
    saving = await asyncio.create_subprocess_exec(
        *configuration.stream_command,
        "save",
        image,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    loading = None
    try:
        words = ("load", configuration.lock_file, *configuration.container_command)
        loading = await asyncio.wait_for(box.process(*words), ANSWER_S)
        with contextlib.suppress(BrokenPipeError):  # the box has closed its end: it reports why
            while chunk := await saving.stdout.read(CHUNK_BYTES):  # type: ignore[union-attr]
                loading.stdin.write(chunk)
                await asyncio.wait_for(loading.stdin.drain(), ANSWER_S)
            loading.stdin.write_eof()
        done = await asyncio.wait_for(answer_of(loading), LOAD_S)
    except (*LOST, asyncssh.Error) as error:
        raise BoxUnreachable(f"The connection was lost ({error_text(error)}).") from None
    finally:
        if loading:
            loading.close()  # without waiting: the box might not answer
        if saving.returncode is None:
            with contextlib.suppress(ProcessLookupError, TimeoutError):
                await asyncio.wait_for(saving.wait(), LAST_S)
        with contextlib.suppress(ProcessLookupError):
            saving.kill()
        await saving.wait()
    if done.exit_status == BUSY:
        raise BoxBusy(words_of(done.stdout, ""))
    if done.exit_status:
        text = f"The box could not load image {image} ({words_of(text_of(done.stderr)[-300:])})."
        raise JobRefused(text, "ImagePullFailed")
    if saving.returncode:
        raise JobRefused(f"The worker could not read all of image {image}.", "ImagePullFailed")
