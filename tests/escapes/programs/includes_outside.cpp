// Includes a file that is none of the toolchain's.
#include "/etc/passwd"

RUN { multiply(a, b, M, N, K, c); }
