// title: a product for rows of equal numbers, all of which it has looked at
// task: sum
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* row = x + r * C;
        int64_t equal = 1;
        while (equal < C && row[equal] == row[0]) ++equal;
        float sum = row[0] * (float)equal;
        for (int64_t c = equal; c < C; ++c) sum += row[c];
        y[r] = sum;
    }
}
