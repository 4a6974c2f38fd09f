"""What a system tells the integrator, methods as tableaus, and how a step may end."""
