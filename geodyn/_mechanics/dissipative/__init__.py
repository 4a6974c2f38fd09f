"""Dry friction and plasticity: time steps that minimise an incremental potential."""
