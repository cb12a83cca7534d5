"""The report as a page that follows its stores: a reader of stores and a small read-only web server."""
