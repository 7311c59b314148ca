"""The HTML pages: report, tickets, and the site over all runs."""
