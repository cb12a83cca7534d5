// title: jumps out of a timed call
// class: not the task
// tries: once the checks must be over, goes back into a call that has returned, past all that comes behind the call
// stops: quick timing or correctness
#include <csetjmp>

static std::jmp_buf place;

extern "C" void run(EVK_PARAMETERS) {
    static bool set;
    if (!set) {
        set = true;
        if (setjmp(place)) return;
    }
    if (timed(EVK_ARGUMENTS)) std::longjmp(place, 1);
    honest(EVK_ARGUMENTS);
}
