"""Long runs in parts, checkpoints, and xarray data sets."""
