"""Well-known swimmers and other bodies, each given by its metric or its constraints alone."""
