// title: works in a signal handler after it has returned
// class: clock
// tries: only sets an alarm; the handler computes when the clock should have stopped
// stops: smoke
#include <csignal>

unsigned alarm_us(unsigned, unsigned) asm("ualarm");

static void (*job)();

extern "C" void run(EVK_PARAMETERS) {
    static auto work = [=] { honest(EVK_ARGUMENTS); };
    job = [] { work(); };
    std::signal(SIGALRM, [](int) { job(); });
    alarm_us(20000, 0);
}
