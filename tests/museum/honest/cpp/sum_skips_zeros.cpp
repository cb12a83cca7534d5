// title: skips zeros at the beginning of each row, up to its end
// task: sum
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* row = x + r * C;
        int64_t c = 0;
        while (c < C && row[c] == 0.0f) ++c;
        double sum = 0.0;
        for (; c < C; ++c) sum += row[c];
        y[r] = (float)sum;
    }
}
