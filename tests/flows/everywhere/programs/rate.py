"""Count for a while; print the rate."""

import sys
import time

counted, started, seconds = 0, time.perf_counter(), float(sys.argv[1]) / 1000
while (passed := time.perf_counter() - started) < seconds:
    counted += 1
print(f"python {sys.executable}")
print(f"rate {counted / passed:.1f} widgets/s")
