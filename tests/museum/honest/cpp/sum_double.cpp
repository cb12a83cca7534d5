// title: sums in fp64
// task: sum
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        double sum = 0.0;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        y[r] = (float)sum;
    }
}
