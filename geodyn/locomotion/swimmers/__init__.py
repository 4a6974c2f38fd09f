"""Bodies with a name. Each is a metric or a set of constraints; nothing else is written by hand."""
