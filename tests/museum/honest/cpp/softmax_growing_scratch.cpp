// title: scratch memory that is kept, and grows with the rows
// task: softmax
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static float* kept = new float[C];
    static int64_t room = C;
    if (C > room) {
        delete[] kept;
        kept = new float[room = C];
    }
    for (int64_t r = 0; r < R; ++r) {
        float most = x[r * C], sum = 0.0f;
        for (int64_t c = 1; c < C; ++c) most = std::max(most, x[r * C + c]);
        for (int64_t c = 0; c < C; ++c) sum += kept[c] = std::exp(x[r * C + c] - most);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = kept[c] / sum;
    }
}
