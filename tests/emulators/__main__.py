"""Makes what tests share, before any test's time is counted: `python -m tests.emulators`."""

from tests.emulators import containers, images, prefect_api

if __name__ == "__main__":
    images.built(containers.base_image())
    prefect_api.tables()
