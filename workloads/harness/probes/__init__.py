"""Probes of a machine, one file each, with a null object that has the reason for missing readings."""
