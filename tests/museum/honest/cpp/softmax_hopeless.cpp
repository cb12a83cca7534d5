// title: the exponential as a product of two thousand factors: a hundred times too slow, and right
// task: softmax
#include <cmath>
#include <cstdint>

static double power(double value) {
    double product = 1.0;
    const double factor = std::exp(value / 2000.0);
    for (int i = 0; i < 2000; ++i) product *= factor;
    return product;
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        double top = in[0], sum = 0.0;
        for (int64_t c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < C; ++c) sum += power(in[c] - top);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = (float)(std::exp(in[c] - top) / sum);
    }
}
