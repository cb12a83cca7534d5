"""The user's operation, and what trials without data tell of it: arguments, results, dimensions, ranges."""
