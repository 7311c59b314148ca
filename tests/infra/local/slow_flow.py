"""An endless flow with a child process that is easily left behind."""

import asyncio
import subprocess

from prefect import flow


@flow
async def waiting(seconds: float = 600) -> None:
    if seconds:
        subprocess.Popen(["sleep", str(seconds)], start_new_session=True)
    await asyncio.sleep(seconds)
