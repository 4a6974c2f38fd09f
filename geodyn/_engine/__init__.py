"""Tracing and compilation: which arguments are traced, and how programs of small arrays are made fast."""
