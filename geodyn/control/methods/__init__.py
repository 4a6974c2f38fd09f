"""Ways to solve it: by minimisation, by Wong's equations, by descent."""
