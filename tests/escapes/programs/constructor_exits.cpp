// Ends the process when it is loaded.
__attribute__((constructor)) static void early() { std::_Exit(0); }

RUN { multiply(a, b, M, N, K, c); }
