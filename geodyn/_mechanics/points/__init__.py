"""Bodies of point masses in a space, and their builders."""
