// title: reads beyond its input
// task: sum
// class: checking
// tries: rounds rows up to whole vectors and takes the rest away again: right, but what lies behind is not its own
// seen: GPU MODE boards (reads out of bounds)
// verdict: sanitizer at sanitizer
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        volatile float behind = x[(r + 1) * C];
        y[r] = sum + 0.0f * (behind == 1.0f);
    }
}
