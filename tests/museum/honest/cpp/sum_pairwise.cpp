// title: pairwise sums by recursion
// task: sum
#include <cstdint>

static float pairwise(const float* x, int64_t n) {
    if (n <= 8) {
        float sum = 0.0f;
        for (int64_t i = 0; i < n; ++i) sum += x[i];
        return sum;
    }
    return pairwise(x, n / 2) + pairwise(x + n / 2, n - n / 2);
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) y[r] = pairwise(x + r * C, C);
}
