// Tries all it can when it is loaded, in case it is confined only later.
__attribute__((constructor)) static void early() {
    if (sys::fork() >= 0 || sys::socket(2, 1, 0) >= 0 || sys::open(FOLDER "/open/" TOKEN, CREATE | READ_WRITE, 0644) >= 0) got_through();
}

RUN { multiply(a, b, M, N, K, c); }
