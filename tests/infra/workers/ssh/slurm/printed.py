"""What Slurm prints of a job, by version and end."""

from infra.workers.ssh.slurm.states import SlurmJob

PENDING = "JobId=7 JobState=PENDING Reason=None Dependency=(null)"
PRINTED = {}
assert SlurmJob
