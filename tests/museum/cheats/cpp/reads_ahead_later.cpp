// title: reads beyond its input once the checks are over
// task: sum
// class: checking
// tries: counts its calls, and reads no element behind a row before it is timed
// seen: here first
// verdict: out_of_bounds at quick timing
#include <cstdint>

__attribute__((no_sanitize("address"))) static float look(const float* x) {
    return *(const volatile float*)x;
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static int calls = 0;
    const bool late = ++calls > 400;
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        y[r] = sum;
        if (late) look(x + (r + 1) * C);
    }
}
