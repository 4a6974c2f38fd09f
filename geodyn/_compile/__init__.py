"""From a user's function to a compiled program: what is traced, and how small programs are made fast."""
