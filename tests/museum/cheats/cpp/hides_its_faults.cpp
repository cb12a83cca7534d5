// title: reads beyond its input, and handles the fault
// task: sum
// class: checking
// tries: loads the element behind each row where no sanitizer looks, and jumps back where there is none
// seen: here first
// verdict: out_of_bounds at sanitizer
#include <setjmp.h>
#include <csignal>
#include <cstdint>

static sigjmp_buf back;
static void handle(int) { siglongjmp(back, 1); }

__attribute__((no_sanitize("address"))) static float look(const float* x) {
    return *(const volatile float*)x;
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    std::signal(SIGSEGV, handle);
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        y[r] = sum;
        if (sigsetjmp(back, 1) == 0) look(x + (r + 1) * C);
    }
}
