"""Plain kernels in C++: the graph of a traced operation, and one loop nest for each value that is kept."""
