"""Scenarios: systems and their initial data as TOML files, those that come with geodyn, exact solutions of some."""
