"""Files that are read and written: archives of arrays, and TOML whose errors name the line."""
