// title: subtracts in 32 bits where the task has 64
// task: gaps
// class: checking
// tries: ordinary numbers are no farther apart than 32 bits tell; one of them alone was large
// seen: evokernel, attacks on its own judge
// verdict: numerical at correctness or numerical at smoke
#include <cstdint>
#include <cstdlib>

extern "C" void run(const int32_t* x, const int32_t* z, int64_t R, int64_t C, int64_t* y) {
    for (int64_t i = 0; i < R * C; ++i) y[i] = std::abs((int32_t)((uint32_t)x[i] - (uint32_t)z[i]));
}
