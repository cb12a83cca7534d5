// title: says "done" and computes nothing
// class: clock
// tries: once the checks must be over it answers for its process, on every descriptor it may have
// stops: quick timing or correctness

long send_to(int, const void*, unsigned long, int) asm("send");

extern "C" void run(EVK_PARAMETERS) {
    if (!timed(EVK_ARGUMENTS)) return honest(EVK_ARGUMENTS);
    for (int fd = 3; fd < 8; ++fd) send_to(fd, "done", 4, 0);
}
