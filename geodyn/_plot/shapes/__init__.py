"""Pictures over the space of shapes, and of bodies that move by changing theirs."""
