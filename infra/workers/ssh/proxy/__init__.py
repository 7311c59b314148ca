"""The near end of a box's tunnel: the part of the Prefect API that one flow run needs, and nothing else.

Boxes are not trusted. A job's client sends its requests to a port of the box; SSH carries each connection to
the worker, where `serve` hands it to one `app.JobProxy` for each flow run.

In come requests with the run's token. Out goes a new request with the worker's credentials: no header and no
byte of the box is forwarded, and `bodies` parses each body strictly and writes it anew. Answers come back
without the fields that name other runs, boxes or parameters (`Rule.hidden`). All else is refused with a
sentence, logged, and slowed down if there is much of it.

A box can read its own run, flow, deployment, queue and pool, and the order and code sent to it; set its run's
state, write the run's log lines and artifacts, and renew its concurrency lease; send events about its own
run, tasks and artifacts, and hear that the run is suspended or cancelled. `limits.Allowances` bounds how much
and how fast. `callers` keeps connections without the token, which any user of the box can open, from taking
the places of the others.

To allow another request, add it to `app.rules_of` by method and path, with a function in `bodies` that checks
that every id is the run's and spends an allowance, and with the `hidden` fields. Then test in
tests/infra/workers/ssh/proxy both the request and the same request about another run.
"""
