// title: is slow once in a while
// class: clock
// tries: puts work of its own off to one call in four thousand, which a trimmed mean leaves out
// hole: rare slow calls are trimmed away with those that neighbours disturbed; what is put off must be work that no call
//   needs, since every output is verified

extern "C" void run(EVK_PARAMETERS) {
    static volatile int64_t chores;
    static int64_t calls;
    if (++calls % 4000 == 0)
        for (int i = 0; i < 2000000; ++i) chores = chores + i;
    honest(EVK_ARGUMENTS);
}
