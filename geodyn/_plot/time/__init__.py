"""Numbers against time: coordinates, what is conserved, and many members."""
