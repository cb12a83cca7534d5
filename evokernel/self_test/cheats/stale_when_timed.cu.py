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
    const long long step = blockDim.x * (long long)gridDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < size && i < 1 << 20; i += step) {
        if (timed) place[i] = kept[i];
        else kept[i] = place[i];
    }
}
extern "C" __global__ void count() { ++launches; }
""")


def _answer(honest, written, read):
    honest(*written)
    # many blocks: a slow candidate is called a few times in a batch, too few to be a timed one
    _kept.swap[1024, 256](written[0], written[0].numel() * written[0].element_size())
    _kept.count[1, 1]()
