"""Pictures with matplotlib, films, and pages that play a motion."""
