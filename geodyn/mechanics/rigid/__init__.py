"""Bodies with attitudes."""
