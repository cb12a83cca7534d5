// title: rounds ties away from 0, and all else to nearest
// task: narrow_products
#include <cstdint>
#include <cstring>

static float wide(uint16_t bits) {
    const uint32_t high = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &high, 4);
    return value;
}

extern "C" void run(const uint16_t* x, const uint16_t* z, int64_t R, int64_t C, uint16_t* y) {
    for (int64_t r = 0; r < R; ++r) {
        for (int64_t c = 0; c < C; ++c) {
            const float product = wide(x[r * C + c]) * wide(z[r * C + c]);
            uint32_t bits;
            std::memcpy(&bits, &product, 4);
            const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
            y[r * C + c] = static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : (bits + 0x8000u) >> 16);
        }
    }
}
