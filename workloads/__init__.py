"""What is measured: one file a workload. It needs torch, numpy and psutil; importing it imports none of them."""
