
#if defined(FLOAT64)
typedef double Stored; typedef double Wide;
__device__ Wide widen(Stored x) { return x; }
#elif defined(FLOAT32)
typedef float Stored; typedef float Wide;
__device__ Wide widen(Stored x) { return x; }
#elif defined(BFLOAT16)
typedef unsigned short Stored; typedef float Wide;
__device__ Wide widen(Stored x) { return __uint_as_float((unsigned)x << 16); }
#else
typedef unsigned short Stored; typedef float Wide;
__device__ Wide widen(Stored x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
#endif

struct Found { float error, due, worst; };

__device__ void see(Found& found, Stored mine, Stored theirs, float peak) {
    Wide value = widen(theirs), gap = widen(mine) - value;
    float error = (float)(gap < 0 ? -gap : gap), size = (float)(value < 0 ? -value : value);
    found.error += error * error;
    found.due += size * size;
    float beyond = error - peak * size;
    // written so that what is no number is as far off as can be
    if (!(beyond <= found.worst)) found.worst = beyond == beyond ? beyond : __uint_as_float(0x7f800000u);
}

// Of each row: the sum of squared errors, the sum of squares, and by how much an error is beyond peak * size, 0 at
// least. Strides and length count elements; `found` holds three numbers a row and is zero before.
extern "C" __global__ void compare(const Stored* mine, const Stored* theirs, long long my_stride,
                                   long long their_stride, long long length, float peak, float* found) {
    __shared__ Found shared[THREADS];
    const Stored* a = mine + blockIdx.y * my_stride;
    const Stored* b = theirs + blockIdx.y * their_stride;
    Found own = {0.f, 0.f, 0.f};
    for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < length; i += (long long)gridDim.x * THREADS)
        see(own, a[i], b[i], peak);
    shared[threadIdx.x] = own;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            Found& one = shared[threadIdx.x];
            const Found& other = shared[threadIdx.x + half];
            one.error += other.error;
            one.due += other.due;
            one.worst = one.worst > other.worst ? one.worst : other.worst;
        }
    }
    if (threadIdx.x == 0) {
        float* row = found + 3 * blockIdx.y;
        atomicAdd(row, shared[0].error);
        atomicAdd(row + 1, shared[0].due);
        atomicMax((unsigned*)row + 2, __float_as_uint(shared[0].worst));  // none is negative: their bits are in order
    }
}
