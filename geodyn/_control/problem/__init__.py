"""The problem of optimal strokes, its optimality conditions, and its solutions."""
