"""What a user may give: kinds of arguments and their checks; files; signs of life while a program runs."""
