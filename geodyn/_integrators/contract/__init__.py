"""The interface between systems and integrators, and Butcher tableaux."""
