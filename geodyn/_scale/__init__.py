"""One function of many members: in chunks, on all cores and devices, into memory, statistics or files."""
