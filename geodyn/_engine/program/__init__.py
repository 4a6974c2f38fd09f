"""From the traced program of one member to instructions for all members of a batch."""
