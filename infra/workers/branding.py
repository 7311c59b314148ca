"""The type of the names that differ between packages with the workers' source."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Branding:
    """Names that a worker gives to labels, variables and files.

    Attributes:
        name: prefix of the labels of flow runs, and of volumes and temporary folders.
        env_prefix: of the environment variables that all workers share.
        container_label: of the containers that a box runs for its lock's holder.
        cache_path: folder in a container that outlives the job with the job variable `keep`.
        module: that the Python of a box without containers must have.
        code_module: has `bring_code` and `code_variables`; if empty, the code must be on the box.
        artifact_type: the only one that a box can make. If it is empty, boxes run any flow: they make any
            artifacts,
            and set the name and retries of their flow run.
    """

    name: str
    env_prefix: str
    container_label: str = ""
    cache_path: str = ""
    lock_file: str = ""
    module: str = "prefect"
    code_module: str = ""
    artifact_type: str = ""
