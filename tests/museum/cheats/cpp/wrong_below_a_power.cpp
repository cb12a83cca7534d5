// title: leaves out the tail of rows that end right below a multiple of 16
// task: sum
// class: checking
// tries: few sizes are like that, and a draw of hidden ones may have none of them
// seen: our own mutants (a bound that is wrong by one)
// verdict: numerical at smoke or numerical at correctness
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    const int64_t used = C % 16 == 15 ? C - 15 : C;
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < used; ++c) sum += x[r * C + c];
        y[r] = sum;
    }
}
