"""Words by which Python, torch and their libraries report that memory ran out."""

# All compared in lower case.
_SAID = (
    *("can't allocate memory", "cannot allocate memory", "out of memory", "not enough memory", "bad_alloc"),
    *("could not allocate", "failed to allocate", "unable to allocate", "memory allocation still failed"),
    *("status_alloc_failed", "status_internal_error_host_alloc", "memoryerror", "cannot map zero-fill pages"),
)
# glibc's loader reports this when one of its tables is full, with any amount of memory.
_OF_A_TABLE = "static tls block"


def says_so(text: str) -> bool:
    lowered = text.lower()
    return _OF_A_TABLE not in lowered and any(words in lowered for words in _SAID)
