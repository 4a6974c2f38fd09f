"""SPACE: a space is its metric, a group is its generators."""
