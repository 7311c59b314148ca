"""Send one request after another for a while; print the rate as JSON."""

import json
import sys
import time
from http.client import HTTPConnection

asked, started = 0, time.perf_counter()
while (passed := time.perf_counter() - started) < 0.5:
    connection = HTTPConnection("127.0.0.1", int(sys.argv[1]))
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"ok"
    connection.close()
    asked += 1
print(json.dumps({"rate": asked / passed}))
