"""Contacts in time: when gaps close, what an impact does, and what stays closed."""
