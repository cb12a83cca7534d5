// title: leaves the largest element out of it
// task: softmax
// class: checking
// tries: normal numbers do not overflow, so it does not look for the largest one
// seen: KernelHacks
// verdict: nonfinite at correctness or numerical at correctness
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += y[r * C + c] = std::exp(x[r * C + c]);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] /= sum;
    }
}
