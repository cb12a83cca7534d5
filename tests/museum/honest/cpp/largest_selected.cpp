// title: selects the eighth number and compares all with it
// task: largest
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        std::vector<float> row(x + r * C, x + (r + 1) * C);
        std::nth_element(row.begin(), row.begin() + 7, row.end(), std::greater<float>());
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = x[r * C + c] >= row[7] ? x[r * C + c] : 0.0f;
    }
}
