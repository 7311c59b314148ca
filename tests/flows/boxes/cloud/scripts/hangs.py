"""What waits for something that does not come."""

import time

time.sleep(3600)
