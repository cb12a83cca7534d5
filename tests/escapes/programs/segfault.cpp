// Touches what is not there.
RUN { *reinterpret_cast<volatile int*>(8) = 1; }
