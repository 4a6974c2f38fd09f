"""Pictures of motion in space: points, edges, rigid bodies, linkages, and films of them."""
