// Jumps out of a call into an earlier one, which has returned.
#include <csetjmp>

static std::jmp_buf place;
static int calls = 0;

RUN {
    if (calls++ == 0) {
        if (setjmp(place) == 0) return;
    }
    std::longjmp(place, 1);
}
