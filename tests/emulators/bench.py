"""A queue, a log group and jobs of the emulated account."""

import time

ENDED = ("SUCCEEDED", "FAILED")
GROUP = "/bench/lanes"


def running(job):
    return job["status"] == "RUNNING"


class Bench:
    def __init__(self, aws, queue, image):
        self.aws, self.queue, self.image = aws, queue, image
        self.batch, self.logs = aws.client("batch"), aws.client("logs")
        self.logs.create_log_group(logGroupName=GROUP)

    def define(self, *command, memory=256, gpus=0, group=GROUP, image=None, **options):
        needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": str(memory)}]
        needs += [{"type": "GPU", "value": str(gpus)}] if gpus else []
        log = {"awslogs-group": group, "awslogs-stream-prefix": "lane"}
        container = {
            "image": image or self.image,
            "command": list(command),
            "resourceRequirements": needs,
            "logConfiguration": {"logDriver": "awslogs", "options": log},
            **options.pop("container", {}),
        }
        answer = self.batch.register_job_definition(
            jobDefinitionName="cell", type="container", containerProperties=container, **options
        )
        return answer["jobDefinitionArn"]

    def submit(self, *command, name="cell", overrides=None, queue=None, submission=None, **definition):
        return self.batch.submit_job(
            jobName=name,
            jobQueue=queue or self.queue,
            jobDefinition=self.define(*command, **definition),
            containerOverrides=overrides or {},
            **(submission or {}),
        )["jobId"]

    def job(self, job_id):
        return self.batch.describe_jobs(jobs=[job_id])["jobs"][0]

    def until(self, job_id, wanted=lambda job: job["status"] in ENDED, states=None):
        """Return the job once the condition holds; pytest's timeout ends a test in which it never does."""
        while True:
            job = self.job(job_id)
            if states is not None and job["status"] not in states[-1:]:
                states.append(job["status"])
            if wanted(job):
                return job
            assert job["status"] not in ENDED, job
            time.sleep(0.05)

    def run(self, *command, **options):
        return self.until(self.submit(*command, **options))

    def lines(self, job, attempt=None):
        stream = (attempt or job)["container"]["logStreamName"]
        events = self.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True)
        return [event["message"] for event in events["events"]]
