"""How a program reaches XLA: what is traced of what a user hands in, and how small programs are made fast."""
