"""Probes of a machine: one file each, with a null object that gives the reason for missing readings."""
