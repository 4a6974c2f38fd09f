"""Methods for optimal strokes: constrained Newton's method, Wong's equations, gradient descent."""
