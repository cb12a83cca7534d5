"""Views of a run in a terminal: live panel, tables, curves."""
