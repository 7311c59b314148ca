"""Cases, records and their files, and the statistics of samples."""
