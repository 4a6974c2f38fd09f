"""TIME: how a system moves. Knows functions and arrays only."""
