"""The search for an optimal stroke: checks of its arguments, starting strokes, and reasons of failure."""
