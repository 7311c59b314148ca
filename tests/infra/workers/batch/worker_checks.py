"""Queries of the emulated account by the aws-batch worker's tests."""


def submitted(aws):
    return [request["jobName"] for operation, request in aws.control.batch_calls if operation == "SubmitJob"]
