// title: tables of 16 bits, emptied before they can overflow
// task: histogram
#include <algorithm>
#include <cstdint>
#include <vector>

extern "C" void run(const int32_t* x, int64_t N, int64_t B, int32_t* y) {
    std::vector<uint16_t> counts((std::size_t)(2 * B));
    for (int64_t b = 0; b < B; ++b) y[b] = 0;
    for (int64_t first = 0; first < N; first += 65535) {
        std::fill(counts.begin(), counts.end(), (uint16_t)0);
        const int64_t last = std::min<int64_t>(N, first + 65535);
        for (int64_t i = first; i < last; ++i) ++counts[(std::size_t)(i % 2 * B + x[i])];
        for (int64_t b = 0; b < B; ++b) y[b] += counts[(std::size_t)b] + counts[(std::size_t)(B + b)];
    }
}
