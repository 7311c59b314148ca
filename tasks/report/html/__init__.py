"""HTML pages: report, tickets, and the site."""
