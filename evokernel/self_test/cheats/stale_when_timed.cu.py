# title: gives an earlier result once it must be timed
# class: caching
# tries: keeps a result in the module's memory, and counts its launches: many are a timed batch
# stops: smoke or correctness or quick timing
from evokernel.cuda import Module

_kept = Module(r"""
__device__ unsigned launches;
__device__ unsigned char kept[1 << 20];
extern "C" __global__ void swap(unsigned char* place, long long size) {
    const bool timed = *(volatile unsigned*)&launches >= 12;
    for (long long i = threadIdx.x; i < size && i < 1 << 20; i += blockDim.x) {
        if (timed) place[i] = kept[i];
        else kept[i] = place[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) ++launches;
}
""")


def _answer(honest, written, read):
    honest(*written)
    _kept.swap[1, 1024](written[0], written[0].numel() * written[0].element_size())
