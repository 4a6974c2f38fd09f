"""Unilateral contacts in time: detection of impacts, laws of impact, and resting contacts."""
