# title: writes behind each output
# class: checking
# tries: what lies there belongs to nobody, or to another
# stops: smoke or correctness
from evokernel.cuda import Module

_mark = Module(r"""
extern "C" __global__ void mark(unsigned char* place, long long size) { place[size] = 1; }
""")


def _answer(honest, written, read):
    honest(*written)
    for place in written:
        _mark.mark[1, 1](place, place.numel() * place.element_size())
