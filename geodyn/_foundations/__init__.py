"""What a user may give: kinds of arguments and their checks; how things end; files; signs of life."""
