"""The studio: a page on which one draws a stroke and watches it swim, and the server behind it."""
