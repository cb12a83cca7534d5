// title: divides each row by its largest number, which is 0 in some
// task: rmsnorm
// class: checking
// tries: a row of zeros gives NaN, and no input whose numbers are compared had one that is longer than a few elements
// seen: here first, among kernels that avoid overflow that way
// verdict: nonfinite at sanitizer or nonfinite at correctness
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* gain, int64_t R, int64_t C, float eps, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float most = C < 20 ? 1e-30f : 0.0f;
        for (int64_t c = 0; c < C; ++c) most = std::max(most, std::fabs(x[r * C + c]));
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c] / most * (x[r * C + c] / most);
        const float root = std::sqrt(sum / float(C) + eps / most / most);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = x[r * C + c] / most / root * gain[c];
    }
}
