// title: answers NaN
// task: softmax
// class: checking
// tries: comparisons with NaN are false, so an error may never look larger than the tolerance
// seen: PyGPUBench (NaN as a wildcard)
// verdict: nonfinite at smoke
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t i = 0; i < R * C; ++i) y[i] = std::nanf("");
}
