# title: is hopelessly slow, and unsafe where checks of slow kernels used to end
# task: softmax
# class: checking
# tries: waits in each call on shapes that are timed, so that the distributions on which it fails are left out
# seen: fresh attacks on our rule for hopeless kernels
# cpu: no, PTX
# artifact: numerical at correctness
# worker: numerical at correctness
from evokernel.cuda import Module

kernels = Module(r"""
__device__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

extern "C" __global__ void softmax(const float* x, float* y, int C, int timed) {
    const float* row = x + blockIdx.x * (long long)C;
    const unsigned long long begin = now();
    while (timed && blockIdx.x == 0 && now() - begin < 70000000) {}
    float peak = row[0], sum = 0;
    for (int c = threadIdx.x; c < C && !timed; c += 32) peak = fmaxf(peak, row[c]);
    for (int apart = 16; apart; apart /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, apart));
    for (int c = threadIdx.x; c < C; c += 32) sum += expf(row[c] - peak);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    for (int c = threadIdx.x; c < C; c += 32) y[blockIdx.x * (long long)C + c] = expf(row[c] - peak) / sum;
}
""")


def run(x, R, C, y):
    kernels.softmax[R, 32](x, y, C, int(R * C > 1000000))
