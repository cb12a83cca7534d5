# title: means and squares of threads, merged pair by pair
# task: layernorm
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void layernorm(const float* x, const float* gain, const float* shift, float* y,
                                     int C, float eps) {
    const float* row = x + blockIdx.x * (long long)C;
    float count = 0, mean = 0, squares = 0;
    for (int c = threadIdx.x; c < C; c += 32) {
        const float off = row[c] - mean;
        mean += off / ++count;
        squares += off * (row[c] - mean);
    }
    for (int apart = 1; apart < 32; apart *= 2) {
        const float others = __shfl_xor_sync(~0u, count, apart), center = __shfl_xor_sync(~0u, mean, apart);
        const float theirs = __shfl_xor_sync(~0u, squares, apart), both = count + others, off = center - mean;
        // the lower of the two is merged first on both sides, so that both get the same bits
        const bool lower = (threadIdx.x & apart) == 0;
        const float first = lower ? mean : center, gap = lower ? off : -off, part = lower ? others : count;
        mean = both > 0 ? first + gap * part / both : 0;
        squares = both > 0 ? (lower ? squares + theirs : theirs + squares) + gap * gap * (count * others / both) : 0;
        count = both;
    }
    const float scale = rsqrtf(squares / C + eps);
    for (int c = threadIdx.x; c < C; c += 32)
        y[blockIdx.x * (long long)C + c] = (row[c] - mean) * scale * gain[c] + shift[c];
}
""")


def run(x, gain, shift, R, C, eps, y):
    kernels.layernorm[R, 32](x, gain, shift, y, C, eps)
