"""PURPOSE: strokes that are best at something."""
