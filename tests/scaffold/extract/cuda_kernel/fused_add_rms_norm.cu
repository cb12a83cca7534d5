// x + residual, and its RMS norm times a weight: one block for each token, in the style of a serving engine.
#include "vec.cuh"

__device__ float block_sum(float value) {
    __shared__ float parts[32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < THREADS / 32; ++warp) total += parts[warp];
    return total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
fused_add_rms_norm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* residual, const __nv_bfloat16* weight,
                          __nv_bfloat16* normed, __nv_bfloat16* sum, float epsilon, int hidden) {
    extern __shared__ float row[];  // x + residual of this token, rounded
    const long long start = (long long)blockIdx.x * hidden;
    float squares = 0.0f;
    if (hidden % 8 == 0) {
        for (int i = threadIdx.x; i < hidden / 8; i += THREADS) {
            const Vec8 a = reinterpret_cast<const Vec8*>(x + start)[i];
            const Vec8 b = reinterpret_cast<const Vec8*>(residual + start)[i];
            Vec8 both;
            for (int k = 0; k < 4; ++k) {
                const float2 left = __bfloat1622float2(a.pairs[k]), right = __bfloat1622float2(b.pairs[k]);
                both.pairs[k] = __floats2bfloat162_rn(left.x + right.x, left.y + right.y);
                const float2 value = __bfloat1622float2(both.pairs[k]);
                row[8 * i + 2 * k] = value.x;
                row[8 * i + 2 * k + 1] = value.y;
                squares += value.x * value.x + value.y * value.y;
            }
            reinterpret_cast<Vec8*>(sum + start)[i] = both;
        }
    } else {
        for (int i = threadIdx.x; i < hidden; i += THREADS) {
            sum[start + i] = __float2bfloat16(__bfloat162float(x[start + i]) + __bfloat162float(residual[start + i]));
            row[i] = __bfloat162float(sum[start + i]);
            squares += row[i] * row[i];
        }
    }
    const float scale = rsqrtf(block_sum(squares) / hidden + epsilon);  // the barrier in it is for `row`, too
    for (int i = threadIdx.x; i < hidden; i += THREADS)
        normed[start + i] = __float2bfloat16(row[i] * scale * __bfloat162float(weight[i]));
}
