"""The files that a run leaves for people: tables, pictures and one HTML report."""

from tasks.report.info import RunInfo
from tasks.report.write import write_report

__all__ = ["RunInfo", "write_report"]
