// title: leaves out numbers below 1e-9
// task: sum
// class: checking
// tries: numbers beside which others are large hide what is left out
// seen: evokernel, attacks on its own judge
// verdict: numerical at correctness or numerical at smoke
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += std::fabs(x[r * C + c]) > 1e-9f ? x[r * C + c] : 0.0f;
        y[r] = sum;
    }
}
