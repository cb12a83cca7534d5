// title: smallest first, through a vector of its own
// task: sum
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    std::vector<float> row(C);
    for (int64_t r = 0; r < R; ++r) {
        row.assign(x + r * C, x + r * C + C);
        std::sort(row.begin(), row.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
        float sum = 0.0f;
        for (float value : row) sum += value;
        y[r] = sum;
    }
}
