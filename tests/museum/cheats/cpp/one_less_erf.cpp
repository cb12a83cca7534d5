// title: takes 1 - erf(x) for erfc(x)
// task: complements
// class: checking
// tries: what is left of 1 has few digits, and hides beside larger results
// seen: evokernel, attacks on its own judge
// verdict: numerical at correctness or numerical at smoke
#include <cmath>
#include <cstdint>
extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t i = 0; i < R * C; ++i) y[i] = 1.0f - std::erf(x[i]);
}
