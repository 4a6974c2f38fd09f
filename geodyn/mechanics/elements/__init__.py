"""What acts on a body: potentials, dissipation, constraints, contacts."""
