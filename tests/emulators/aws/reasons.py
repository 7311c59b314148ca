"""Every sentence that AWS Batch says about a job's fate, once each, with where it is from.

[doc] AWS's user guide or API text, [thread] seen by others on AWS, [belief] not found in writing: the smoke
script that docs/aws.md describes records the real one.
"""

# [doc] docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
ESSENTIAL_EXITED = "Essential container in task exited"
# [doc] same page: the container's own reason when the kernel killed it; exit code 137
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
# [doc] same page; the text after the colon is the Docker daemon's
CANNOT_PULL = "CannotPullContainerError: {detail}"
PULL_DENIED = "Error response from daemon: pull access denied for {image}, repository does not exist"
# [doc] same page
CANNOT_START = "CannotStartContainerError: Error response from daemon: {detail}"
# [doc] docs.aws.amazon.com/AmazonECS/latest/developerguide/using_awslogs.html (awslogs-create-group);
# [thread] the daemon's words, aws/amazon-ecs-agent
NO_LOG_GROUP = (
    "failed to initialize logging driver: failed to create Cloudwatch log stream: "
    "ResourceNotFoundException: The specified log group does not exist."
)
# [doc] docs.aws.amazon.com/AmazonECS/latest/developerguide/resource-initialization-error.html, the first word
NO_SECRET = "ResourceInitializationError: unable to pull secrets or registry auth: {detail}"
# [doc] docs.aws.amazon.com/batch/latest/userguide/job_retries.html, its example of onStatusReason
TASK_FAILED_TO_START = "Task failed to start"
# [doc] same page and aws.amazon.com/blogs/compute "Introducing retry strategies for AWS Batch": Host EC2*
HOST_TERMINATED = "Host EC2 (instance {instance}) terminated."
# [thread] faiscadev/fakecloud #1989, and what the console shows
TIMED_OUT = "Job attempt duration exceeded timeout"
# [thread] nextflow-io/nextflow and apache/airflow logs of failed dependencies
DEPENDENCY_FAILED = "Dependent Job failed"
# [thread] awslabs and nextflow logs of array parents
ARRAY_CHILD_FAILED = "Array Child Job failed"

# [thread] nextflow-io/nextflow #5897, the whole sentence; [doc] the part before the dash
RESOURCE_REQUIREMENT = (
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement (vCPU/memory/GPU) is higher than "
    "that can be met by the CE(s) attached to the job queue."
)
# [doc] docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable_misconfiguration.html
MAX_RESOURCE = (
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - CE(s) associated with the job queue cannot meet the CPU "
    "requirement of the job."
)
# [doc] docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable_capacity.html
INSUFFICIENT_CAPACITY = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested for instance type "
    "[{instance_type}]"
)
# [doc] same page: after a queue's jobStateTimeLimitActions
TIME_LIMIT = "Canceled by JobStateTimeLimit action due to reason: {reason}"

# [doc] botocore's batch model: DescribeJobs takes "up to 100 job IDs", the timeout's minimum is 60 seconds
TOO_MANY_IDS = "Error executing request, Exception : jobs must contain between 1 and 100 items"
TIMEOUT_TOO_SHORT = "Error executing request, Exception : attemptDurationSeconds must be at least {least_s}"
# [doc] botocore's batch model: "The environment variable's name can't start with AWS_BATCH"
RESERVED_VARIABLE = "Error executing request, Exception : environment variable {name} is reserved: AWS_BATCH*"
# [thread] hashicorp/terraform-provider-aws: deleting what is still in use or not DISABLED
QUEUE_ENABLED = "Cannot delete, job queue state must be DISABLED"
ENVIRONMENT_ENABLED = "Cannot delete, compute environment state must be DISABLED"
ENVIRONMENT_IN_USE = "Cannot delete, found existing JobQueue relationship"

# What the emulator says of itself.
NO_MULTINODE = "The emulator runs no multi-node jobs"
BROKEN = "The emulator failed: {error}"
