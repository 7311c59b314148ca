"""The tests, as a package: gpuhunt installs one of this name, which would hide a folder without this file."""
