"""Loop-nest representation of C++ kernels: reader, writer and dependence analysis."""
