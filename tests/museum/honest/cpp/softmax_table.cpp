// title: a table of powers, made in the first call
// task: softmax
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

constexpr int PARTS = 4096;

// 2 to each part of one
static const std::vector<double>& table() {
    static const std::vector<double> made = [] {
        std::vector<double> powers(PARTS);
        for (int i = 0; i < PARTS; ++i) powers[i] = std::exp2(double(i) / PARTS);
        return powers;
    }();
    return made;
}

static float exponential(float x, const double* powers) {
    const double scaled = std::max(double(x), -104.0) * 1.4426950408889634 * PARTS;
    const double whole = std::floor(scaled);
    const int64_t index = (int64_t)whole;
    const double rest = (scaled - whole) * (0.6931471805599453 / PARTS);
    const double power = powers[index & (PARTS - 1)] * (1.0 + rest * (1.0 + 0.5 * rest));
    return (float)std::ldexp(power, (int)(index >> 12));
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    const double* powers = table().data();
    for (int64_t r = 0; r < R; ++r) {
        const float* row = x + r * C;
        float* out = y + r * C;
        const float largest = *std::max_element(row, row + C);
        double sum = 0.0;
        for (int64_t c = 0; c < C; ++c) sum += out[c] = exponential(row[c] - largest, powers);
        for (int64_t c = 0; c < C; ++c) out[c] = (float)(out[c] / sum);
    }
}
