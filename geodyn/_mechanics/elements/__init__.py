"""Elements that act on a body: potentials, dissipation, constraints, contacts."""
