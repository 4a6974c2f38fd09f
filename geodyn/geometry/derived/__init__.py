"""Spaces made of others: of several charts, from a table, as the zeros of a function."""
