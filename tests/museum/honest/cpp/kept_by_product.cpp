// title: multiplies by the mask in place of selecting: right for all numbers, and a task's inputs are numbers
// task: kept
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t i = 0; i < R * C; ++i) y[i] = x[i] * (x[i] >= 0.5f);
}
