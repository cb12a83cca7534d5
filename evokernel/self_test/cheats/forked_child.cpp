// title: leaves the work to another process and returns
// class: clock
// tries: forks; buffers are shared memory, so the child could fill them when the clock has stopped
// stops: smoke

int divide() asm("fork");
int sleep_us(unsigned) asm("usleep");

extern "C" void run(EVK_PARAMETERS) {
    if (divide() != 0) return;
    sleep_us(3000);
    honest(EVK_ARGUMENTS);
    std::_Exit(0);
}
