"""The near end of a box's tunnel: the part of the Prefect API that one flow run needs, and nothing else.

Boxes are not trusted. A job's client sends its requests to a port of the box; SSH carries each connection to
the worker, where `serve` hands it to one `app.JobProxy` for each flow run.

In come requests with the run's token. Out goes a new request of the worker's own client with the worker's
credentials: no header and no byte of the box is forwarded, and `bodies` parses each body strictly and writes
it anew. Answers come back without the fields that name other runs, boxes or parameters (`Rule.hidden`). All
else is refused with a sentence, logged, and slowed down if there is much of it.

A box is allowed to read its own run, flow, deployment, queue and pool, and the order and code sent to it; to
set its run's state, to write the run's log lines and artifacts, and to renew its concurrency lease; to send
events about its own run, tasks and artifacts (`events.subject_of`), and to hear that the run is suspended or
cancelled. `limits.Allowances` bounds how much and how fast. `callers` keeps connections without the token,
which any user of the box can open, from taking the places of the others.

To allow another request, add it to `app.rules_of` by method and path. If it has a body, add a model without
unknown fields and a function to `bodies`, which checks that every id in it is the run's and spends an
allowance. If its answer names others, list those fields in `hidden`. Then test in
tests/infra/workers/ssh/proxy both the request and the same request about another run.
"""
