"""Plans: from a pose to a pose by many strokes, past obstacles."""
