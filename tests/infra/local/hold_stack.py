"""Hold a stack until stopped: `python hold_stack.py STATE`. Prints one line for each event."""

import sys
import time
from pathlib import Path

from infra.local.stack import LocalStack

with LocalStack(Path(sys.argv[1])) as stack:
    print(stack.api_url, flush=True)
    while True:
        time.sleep(0.2)
        if sentence := stack.check():
            print(sentence, flush=True)
