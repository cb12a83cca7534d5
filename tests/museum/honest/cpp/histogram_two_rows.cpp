// title: counts in two rows of counters, which are added up
// task: histogram
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" void run(const int32_t* x, int64_t N, int64_t B, int32_t* y) {
    std::vector<int32_t> odd((std::size_t)B, 0);
    for (int64_t b = 0; b < B; ++b) y[b] = 0;
    int64_t i = 0;
    for (; i + 1 < N; i += 2) {
        ++y[x[i]];
        ++odd[(std::size_t)x[i + 1]];
    }
    if (i < N) ++y[x[i]];
    for (int64_t b = 0; b < B; ++b) y[b] += odd[(std::size_t)b];
}
