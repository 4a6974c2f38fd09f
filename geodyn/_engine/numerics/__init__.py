"""Small linear algebra and roots of small systems of equations."""
