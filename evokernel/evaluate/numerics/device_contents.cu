
typedef unsigned u32; typedef unsigned long long u64;
#ifdef FLOAT32
typedef float Stored;
#elif defined(FLOAT64)
typedef double Stored;
#elif WORD_BYTES == 1
typedef unsigned char Stored;
#elif WORD_BYTES == 2
typedef unsigned short Stored;
#elif WORD_BYTES == 4
typedef u32 Stored;
#else
typedef u64 Stored;
#endif

// Philox 4x32 with 7 rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3)
__device__ void philox(u32 x[4], u64 key) {
    u32 one = (u32)key, two = (u32)(key >> 32);
    for (int round = 0; round < 7; ++round) {
        u64 left = (u64)0xD2511F53u * x[0], right = (u64)0xCD9E8D57u * x[2];
        u32 first = (u32)(right >> 32) ^ x[1] ^ one, third = (u32)(left >> 32) ^ x[3] ^ two;
        x[0] = first; x[1] = (u32)right; x[2] = third; x[3] = (u32)left;
        one += 0x9E3779B9u; two += 0xBB67AE85u;
    }
}

// Fills rows. Element i of row r follows from the key, first + r and i alone. The table has 2^bits elements; lower bits
// of the random number scale floating-point numbers by up to 1 +- spread. The stride counts elements.
extern "C" __global__ void fill(const Stored* table, int bits, int shared_table, Stored* rows, long long stride,
                                long long size, u64 key, long long first, float spread) {
    __shared__ Stored near[SHARED_BYTES / sizeof(Stored)];
    if (shared_table) {
        for (int i = threadIdx.x; i < 1 << bits; i += THREADS) near[i] = table[i];
        __syncthreads();
        table = near;
    }
    Stored* row = rows + blockIdx.y * stride;
    const u64 number = first + blockIdx.y;
    for (long long tile = blockIdx.x; tile * 4 * THREADS < size; tile += gridDim.x) {
        const u64 counter = tile * THREADS + threadIdx.x;
        u32 x[4] = {(u32)counter, (u32)(counter >> 32), (u32)number, (u32)(number >> 32)};
        philox(x, key);
        for (int k = 0; k < 4; ++k) {  // neighbours write neighbours
            const long long i = (tile * 4 + k) * THREADS + threadIdx.x;
            if (i >= size) break;
            Stored value = table[x[k] >> (32 - bits)];
#if defined(FLOAT32) || defined(FLOAT64)
            value *= 1 + (Stored)spread * ((Stored)(x[k] << bits) * (Stored)(1.0 / 2147483648.0) - 1);
#endif
            row[i] = value;
        }
    }
}
