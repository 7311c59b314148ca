"""One registration of a worker's type, where several packages of one environment have the same worker."""

from typing import Any

from prefect.utilities.dispatch import get_registry_for_type
from prefect.workers.base import BaseWorker


class RegisteredOnce:
    """Have Prefect know one of several copies of a worker: that of the package whose name sorts first.

    So every process chooses the same one, whatever it loads first, and none warns of the other.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        registry = get_registry_for_type(BaseWorker) or {}
        key = getattr(cls, "type", "")
        other = registry.get(key)
        if other and other.__name__ == cls.__name__ and other.__module__ != cls.__module__:
            if other.__module__ < cls.__module__:
                return
            del registry[key]
        super().__init_subclass__(**options)
