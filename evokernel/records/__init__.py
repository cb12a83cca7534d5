"""Records: frozen data without behaviour."""
