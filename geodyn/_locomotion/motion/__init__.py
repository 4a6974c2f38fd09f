"""The displacement that a stroke causes, and its cost."""
