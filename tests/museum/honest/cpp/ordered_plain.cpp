// title: sorts whole numbers by comparing them
// task: ordered
#include <algorithm>
#include <cstdint>

extern "C" void run(const int64_t* x, int64_t R, int64_t C, int64_t* y) {
    std::copy(x, x + R * C, y);
    for (int64_t r = 0; r < R; ++r) std::sort(y + r * C, y + (r + 1) * C);
}
