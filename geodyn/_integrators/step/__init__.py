"""One implicit Runge–Kutta step, its derivative, and many steps as one loop."""
