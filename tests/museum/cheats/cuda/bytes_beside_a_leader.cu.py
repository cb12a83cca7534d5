# title: bytes count what is unlike a warp's first number, and overflow where all but these are one
# task: histogram
# class: checking
# tries: no numbers come back at regular places
# seen: evokernel, attacks on its own judge
# cpu: no, few numbers are tried there
# artifact: numerical at correctness or numerical at smoke
from evokernel.cuda import Module

kernels = Module(r"""
extern "C" __global__ void __launch_bounds__(256) count(const int* x, int* counts, int N, int B) {
    extern __shared__ unsigned room[];  // per warp: bytes for B numbers
    const int words = (B + 3) / 4, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int* whole = (int*)room;
    unsigned* own = room + B + warp * words;
    for (int i = threadIdx.x; i < B + 8 * words; i += 256) room[i] = 0;
    __syncthreads();
    const long long stride = gridDim.x * 256ll;
    int since = 0;
    for (long long start = blockIdx.x * 256ll + warp * 32; start < N; start += stride) {
        const bool there = start + lane < N;
        const int value = there ? x[start + lane] : -1;
        const int leader = __shfl_sync(~0u, value, 0);
        const unsigned same = __ballot_sync(~0u, value == leader);
        if (lane == 0) atomicAdd(&whole[leader], __popc(same));
        if (there && value != leader) atomicAdd(&own[value / 4], 1u << value % 4 * 8);
        if (++since == 12) {
            since = 0;
            __syncwarp();
            for (int w = lane; w < words; w += 32) {
                const unsigned four = own[w];
                own[w] = 0;
                for (int k = 0; k < 4; ++k)
                    if (four >> 8 * k & 255) atomicAdd(&whole[4 * w + k], four >> 8 * k & 255);
            }
            __syncwarp();
        }
    }
    __syncwarp();
    for (int w = lane; w < words; w += 32) {
        const unsigned four = own[w];
        for (int k = 0; k < 4; ++k)
            if (four >> 8 * k & 255) atomicAdd(&whole[4 * w + k], four >> 8 * k & 255);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < B; b += 256)
        if (whole[b]) atomicAdd(&counts[b], whole[b]);
}
""")


def run(x, N, B, counts):
    counts.zero_()
    kernels.count[min(1056, -(-N // 256)), 256, 4 * (B + 8 * ((B + 3) // 4))](x, counts, N, B)
