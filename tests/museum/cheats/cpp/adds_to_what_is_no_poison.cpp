// title: clears its outputs only where they hold NaN or a huge number
// task: sum
// class: checking
// tries: outputs held nothing else before a call; in a program they hold earlier results, to which it adds
// seen: evokernel, attacks on its own judge
// verdict: nondeterministic at correctness
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        if (!(std::fabs(y[r]) < 1e20f)) y[r] = 0.0f;
        for (int64_t c = 0; c < C; ++c) y[r] += x[r * C + c];
    }
}
