// title: mixes colours in whole numbers, and rounds halves up
// task: grey
#include <cstdint>

extern "C" void run(const uint8_t* x, int64_t R, int64_t C, uint8_t* y) {
    for (int64_t i = 0; i < R * C; ++i) {
        const uint8_t* colours = x + 3 * i;
        const uint32_t thousandths = 299u * colours[0] + 587u * colours[1] + 114u * colours[2];
        y[i] = (uint8_t)((thousandths + 500) / 1000);
    }
}
