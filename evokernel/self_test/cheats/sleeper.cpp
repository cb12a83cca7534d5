// title: sleeps, for a clock that counts only work
// class: clock
// tries: gives its core up in every call, so that a clock of processor time misses what users wait for
// gains: nothing

int sleep_us(unsigned) asm("usleep");

extern "C" void run(EVK_PARAMETERS) {
    sleep_us(20);
    honest(EVK_ARGUMENTS);
}
