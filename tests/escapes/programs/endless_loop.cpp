// Never comes back.
RUN {
    for (volatile int i = 0;; i = 1) continue;
}
