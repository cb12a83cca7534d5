// title: sorts by a heap, which gives equal numbers an order of its own
// task: ranks
#include <algorithm>
#include <cstdint>
#include <vector>
extern "C" void run(const float* x, int64_t R, int64_t C, int64_t* y) {
    std::vector<int32_t> order(C);
    for (int64_t r = 0; r < R; ++r) {
        const float* row = x + r * C;
        for (int32_t c = 0; c < C; ++c) order[c] = c;
        std::make_heap(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] < row[b]; });
        std::sort_heap(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] < row[b]; });
        for (int64_t c = 0; c < C; ++c) y[r * C + order[c]] = c;
    }
}
