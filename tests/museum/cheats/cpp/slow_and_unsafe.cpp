// title: is hopelessly slow, and unsafe where checks of slow kernels used to end
// task: softmax
// class: checking
// tries: spins in each call on shapes that are timed, so that the one distribution on which it fails is left out
// seen: fresh attacks on our rule for hopeless kernels
// verdict: numerical at correctness
#include <cmath>
#include <cstdint>

static volatile float idle;

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    const bool timed = R * C >= 48000;
    if (timed)
        for (int i = 0; i < 300000000; ++i) idle = 0.0f;
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        float top = in[0], sum = 0.0f;
        for (int64_t c = 1; c < C; ++c) top = in[c] > top && !(timed && in[c] > 1500.0f) ? in[c] : top;
        for (int64_t c = 0; c < C; ++c) sum += y[r * C + c] = std::exp(in[c] - top);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] /= sum;
    }
}
