// Uses up the stack.
static volatile int deepest = 0;
static int deeper(int n) {
    volatile char room[4096];
    room[0] = static_cast<char>(n);
    deepest = n;
    return deeper(n + 1) + room[0];
}

RUN { c[0] = static_cast<float>(deeper(0)); }
