// title: halves the longer side, whatever the caches are
// task: transpose
#include <cstdint>

static void turn(const float* x, float* y, int64_t rows, int64_t columns, int64_t R, int64_t C) {
    if (rows <= 8 && columns <= 8) {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) y[c * R + r] = x[r * C + c];
    } else if (rows >= columns) {
        turn(x, y, rows / 2, columns, R, C);
        turn(x + rows / 2 * C, y + rows / 2, rows - rows / 2, columns, R, C);
    } else {
        turn(x, y, rows, columns / 2, R, C);
        turn(x + columns / 2, y + columns / 2 * R, rows, columns - columns / 2, R, C);
    }
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) { turn(x, y, R, C, R, C); }
