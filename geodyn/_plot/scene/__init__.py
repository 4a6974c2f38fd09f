"""Where things are in a picture: models of curved spaces, solids, and the points and edges of a motion."""
