"""Long runs in parts, their checkpoints, and data sets for others."""
