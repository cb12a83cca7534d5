"""The report as a page that follows its stores: reading them, and a small web server that only answers."""
