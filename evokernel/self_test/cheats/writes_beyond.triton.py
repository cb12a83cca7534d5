# title: writes behind each output
# class: checking
# tries: what lies there belongs to nobody, or to another
# stops: smoke or correctness
import triton
import triton.language as tl


@triton.jit
def _mark(place, count):
    tl.store(place + count, 1)


def _answer(honest, written, read):
    honest(*written)
    for place in written:
        _mark[(1,)](place, place.numel())
