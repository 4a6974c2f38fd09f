"""Files: archives of arrays, and TOML whose errors name the line."""
