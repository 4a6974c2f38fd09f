"""Where a stroke leads and what it costs."""
