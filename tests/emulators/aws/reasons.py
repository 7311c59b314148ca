"""Every sentence of AWS Batch about the end of a job, with its source.

[doc] AWS's user guide or API text, [thread] seen by others on AWS, [belief] not found in writing: the project
must not depend on these words, and the smoke script of docs/aws.md records the real ones.
"""

# [doc] docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
ESSENTIAL_EXITED = "Essential container in task exited"
# [doc] same page: the container's own reason when the kernel killed it; exit code 137
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
# [doc] same page; the text after the colon is the Docker daemon's
CANNOT_PULL = "CannotPullContainerError: {detail}"
# [thread] aws/amazon-ecs-agent #2343, awslabs/ecs-task-kite #8: the daemon's words
PULL_DENIED = "Error response from daemon: pull access denied for {image}, repository does not exist"
# [doc] same page
CANNOT_START = "CannotStartContainerError: Error response from daemon: {detail}"
# [thread] ryfeus/stepfunctions2processing #5, prakhar1989/docker-curriculum #253: the whole sentence
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
# [belief] the words, which another emulator has, too (faiscadev/fakecloud #1989); that and when it is killed is
# [doc] docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
TIMED_OUT = "Job attempt duration exceeded timeout"
# [doc] docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RunTask.html: 8192 characters, with those of the JSON;
# [thread] Netflix/metaflow #1482 and #977, ASFHyP3/hyp3 #3041: SubmitJob takes it, and the job is FAILED with this
OVERRIDES_TOO_LONG = "Container Overrides length must be at most 8192"

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

# [doc] botocore's batch model: DescribeJobs takes "up to 100 job IDs"; [belief] the words
TOO_MANY_IDS = "Error executing request, Exception : jobs must contain between 1 and 100 items"
# [doc] botocore's batch model: the timeout's minimum is 60 seconds; [belief] the words
TIMEOUT_TOO_SHORT = "Error executing request, Exception : attemptDurationSeconds must be at least {least_s}"
# [doc] botocore's batch model, KeyValuePair and ContainerOverrides: AWS_BATCH is reserved; [belief] the words
RESERVED_VARIABLE = "Error executing request, Exception : environment variable {name} is reserved: AWS_BATCH*"
# [doc] botocore's batch model, DeleteJobQueue: disabled first; [belief] the words
QUEUE_ENABLED = "Cannot delete, job queue state must be DISABLED"
# [doc] botocore's batch model, DeleteComputeEnvironment: disabled first; [belief] the words
ENVIRONMENT_ENABLED = "Cannot delete, compute environment state must be DISABLED"
# [thread] hashicorp/terraform-provider-aws #2044, #13221
ENVIRONMENT_IN_USE = "Cannot delete, found existing JobQueue relationship"

# Sentences of the emulator itself.
NO_MULTINODE = "The emulator runs no multi-node jobs"
NO_ARRAYS = "The emulator runs no arrays and no jobs that depend on others"
BROKEN = "The emulator failed: {error}"
