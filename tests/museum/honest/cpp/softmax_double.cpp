// title: exponentials and sums in fp64
// task: softmax
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        float top = in[0];
        for (int64_t c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
        double sum = 0.0;
        for (int64_t c = 0; c < C; ++c) sum += std::exp((double)in[c] - top);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = (float)(std::exp((double)in[c] - top) / sum);
    }
}
