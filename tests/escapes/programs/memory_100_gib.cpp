// Asks for more than there is, and does not take no for an answer.
RUN {
    volatile char* block = new char[100ull << 30];
    block[0] = 1;
    multiply(a, b, M, N, K, c);
}
