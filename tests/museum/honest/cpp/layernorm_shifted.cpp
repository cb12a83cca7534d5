// title: one pass, shifted by the row's first element, in fp64
// task: layernorm
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* gain, const float* shift, int64_t R, int64_t C, float eps, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float start = x[r * C];
        double sum = 0.0, squares = 0.0;
        for (int64_t c = 0; c < C; ++c) {
            const double value = (double)x[r * C + c] - start;
            sum += value;
            squares += value * value;
        }
        const double mean = sum / (double)C, scale = 1.0 / std::sqrt(squares / (double)C - mean * mean + eps);
        for (int64_t c = 0; c < C; ++c)
            y[r * C + c] = (float)(((double)x[r * C + c] - start - mean) * scale) * gain[c] + shift[c];
    }
}
