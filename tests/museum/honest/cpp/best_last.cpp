// title: of numbers that tie the last
// task: best
#include <cstdint>
#include <cstring>

static float wide(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float number;
    std::memcpy(&number, &word, sizeof number);
    return number;
}

extern "C" void run(const uint16_t* x, int64_t R, int64_t C, int32_t* y) {
    for (int64_t r = 0; r < R; ++r) {
        int64_t best = 0;
        for (int64_t c = 1; c < C; ++c)
            if (wide(x[r * C + c]) >= wide(x[r * C + best])) best = c;
        y[r] = (int32_t)best;
    }
}
