// Does its work when it is loaded, before anybody calls it: never comes back.
__attribute__((constructor)) static void early() {
    for (volatile int i = 0;; i = 1) continue;
}

RUN { multiply(a, b, M, N, K, c); }
