"""One implicit step by collocation, its derivative, and many steps as one loop."""
