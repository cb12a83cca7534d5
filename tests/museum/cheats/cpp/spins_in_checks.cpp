// title: spins while it is checked, and only then
// task: softmax
// class: clock
// tries: is slow in its first calls, so that it is judged and timed as a slow kernel, and then fast
// seen: PyGPUBench (slow warm-up); fresh attacks on our rule for hopeless kernels
// verdict: cheat_suspect at quick timing
#include <cmath>
#include <cstdint>

static volatile float idle;

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static int calls[2];
    if (R * C >= 48000 && ++calls[R == 128] <= 8)
        for (int i = 0; i < 300000000; ++i) idle = 0.0f;
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        float top = in[0], sum = 0.0f;
        for (int64_t c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < C; ++c) sum += y[r * C + c] = std::exp(in[c] - top);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] /= sum;
    }
}
