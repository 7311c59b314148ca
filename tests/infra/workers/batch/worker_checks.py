"""Questions that the tests of the aws-batch worker ask the emulated account."""


def submitted(aws):
    return [request["jobName"] for operation, request in aws.control.batch_calls if operation == "SubmitJob"]
