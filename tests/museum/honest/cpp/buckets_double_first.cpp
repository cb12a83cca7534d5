// title: divides in double where all keys of a row are small, and in 64 bits elsewhere
// task: buckets
#include <cstdint>

extern "C" void run(const int64_t* x, int64_t R, int64_t C, int64_t B, int64_t* y) {
    const double inverse = 1.0 / B;
    for (int64_t row = 0; row < R; ++row) {
        const int64_t* key = x + row * C;
        int64_t bits = 0;
        for (int64_t c = 0; c < C; ++c) bits |= key[c] ^ (key[c] >> 63);
        const bool small = bits < int64_t(1) << 50;
        for (int64_t c = 0; c < C; ++c) {
            int64_t r = small ? key[c] - (int64_t)(key[c] * inverse) * B : key[c] % B;
            r += (r >> 63) & B;
            y[row * C + c] = r - (r >= B ? B : 0);
        }
    }
}
