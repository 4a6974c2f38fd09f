"""Nonholonomic constraints, linkages, and constraint forces."""
