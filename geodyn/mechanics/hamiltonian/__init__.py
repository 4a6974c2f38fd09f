"""Phase space, and paths of least action."""
