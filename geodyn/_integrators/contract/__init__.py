"""The interface between systems and integrators, Butcher tableaux, and how an integration may end."""
