"""C++ for processors: build, checks, and facts read from machine code."""
