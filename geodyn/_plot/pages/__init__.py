"""Pages that play a motion in any browser."""
