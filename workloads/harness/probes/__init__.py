"""Probes of a machine, one file each; null objects give reasons for missing readings."""
