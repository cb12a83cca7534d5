// title: leaves out the last element on a narrow band of sizes
// task: sum
// class: checking
// tries: hardly any hidden size lies in the band
// seen: here first, after attacks that were wrong on single shapes
// verdict: numerical at correctness
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    const int64_t used = C > 700 && C < 710 ? C - 1 : C;
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < used; ++c) sum += x[r * C + c];
        y[r] = sum;
    }
}
