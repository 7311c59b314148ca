NAMESPACE = "gridbench"


ACCELERATOR = {"node_labels": {"accelerator": "cloud.google.com/gke-accelerator"}, "accelerator": "nvidia-l4"}
