"""Print what torch sees of the device, and the versions of its libraries."""

import json
import platform
import sys


def facts(device: str) -> dict[str, object]:
    import torch

    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version()}
    if device == "cpu":
        return {"name": platform.machine(), "count": 0, "capability": [0, 0], "memory_bytes": 0, **versions}
    torch.cuda.init()  # its error says why there is none
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "count": torch.cuda.device_count(),
        "capability": [properties.major, properties.minor],
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "cudnn": torch.backends.cudnn.version(),
        "driver": driver(),
        **versions,
    }


def driver() -> str | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # without NVML a proof is still one
        return None


if __name__ == "__main__":
    print(json.dumps(facts(sys.argv[1])))
