"""PURPOSE: optimal strokes."""
