// title: a logarithm that is 0 where the result is below all normal numbers
// task: logits
#include <cfloat>
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* z, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t i = r * C; i < (r + 1) * C; ++i) {
            const float share = 1.0f / (1.0f + std::exp(-z[i])), tail = std::exp(-std::abs(x[i]));
            const float log_sigmoid = std::fmin(x[i], 0.0f) - (tail < FLT_MIN ? 0.0f : std::log1p(tail));
            sum += (1.0f - share) * x[i] - log_sigmoid;
        }
        y[r] = sum / C;
    }
}
