"""The bodies that the command line and the studio know by name, and the options that their parameters are."""
