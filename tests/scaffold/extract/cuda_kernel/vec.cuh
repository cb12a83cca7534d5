#pragma once
#include <cuda_bf16.h>

// 8 numbers of bf16, read and written at once
struct alignas(16) Vec8 {
    __nv_bfloat162 pairs[4];
};
