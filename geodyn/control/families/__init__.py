"""How the best stroke changes with the displacement or the body, and the best body."""
