"""Dry friction and plasticity: steps that minimise an incremental potential."""
