// title: is right on the shapes it was shown
// task: transpose
// class: checking
// tries: is written for multiples of eight, and leaves the rest of other shapes as it is
// seen: Sakana AI CUDA Engineer, KernelBench
// verdict: unwritten_output at smoke or unwritten_output at correctness
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r + 8 <= R; r += 8)
        for (int64_t c = 0; c + 8 <= C; c += 8)
            for (int64_t i = 0; i < 8; ++i)
                for (int64_t j = 0; j < 8; ++j) y[(c + j) * R + r + i] = x[(r + i) * C + c + j];
}
