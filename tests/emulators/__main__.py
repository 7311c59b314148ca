"""Build the images and tables that tests share, outside any test's time: `python -m tests.emulators`."""

from tests.emulators import containers, images, prefect_api

if __name__ == "__main__":
    images.built(containers.base_image())
    prefect_api.tables()
