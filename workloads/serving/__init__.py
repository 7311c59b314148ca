"""Load a server with requests of known arrival times, and find the largest rate that keeps a promised latency.

`python -m workloads.serving ADDRESS` does this:

1. `load` draws when each request is due and how long its prompt and its answer are.
2. `client` sends a request when it is due, whether or not earlier ones were answered, and times the streamed tokens.
3. `play` keeps a rate up until enough requests are settled, and states how late its own requests were.
4. `promise` decides whether the answers keep the promise at that rate, with the number of requests that this takes.
5. `search` tries rates until those that keep the promise and those that break it are close.
"""
