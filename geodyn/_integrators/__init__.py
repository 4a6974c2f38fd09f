"""TIME: numerical integration of systems, which are known here only as functions of arrays."""
