"""From a guess to an optimum: checks, starts, the search, and why one failed."""
