"""A script that waits for ever."""

import time

time.sleep(3600)
