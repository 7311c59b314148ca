"""The address of a results store."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

S3, FOLDER = "s3-bucket", "local-file-system"  # Prefect's names of block types
BLOCK = re.compile(rf"({S3}|{FOLDER})/[a-z0-9-]+")
RESULTS = "GRIDBENCH_RESULTS"  # the variable that names the default folder
DEFAULT_FOLDER = Path(os.environ.get(RESULTS) or Path(__file__).parents[2] / "results")


@dataclass(frozen=True, slots=True)
class ResultsAddress:
    """The place of runs.

    Attributes:
        folder: with runs or working copies.
        block: such as s3-bucket/gridbench; None if they are only in the folder.
    """

    folder: Path
    block: str | None = None

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Use the default folder for an empty option."""
        if text and BLOCK.fullmatch(text.rstrip("/")):
            return cls(DEFAULT_FOLDER, text.rstrip("/"))
        return cls(Path(text) if text else DEFAULT_FOLDER)

    def __str__(self) -> str:
        return self.block or str(self.folder)

    @property
    def parameter(self) -> str:
        """Return it for a flow, which has another working directory."""
        return self.block or str(self.folder.absolute())

    @property
    def is_s3(self) -> bool:
        return (self.block or "").startswith(f"{S3}/")


DEFAULT = ResultsAddress(DEFAULT_FOLDER)
