# title: is off by a hundredth
# class: checking
# tries: a tolerance for fewer bits lets it pass
# needs: a result of floating-point numbers
# stops: smoke or correctness
import triton
import triton.language as tl


@triton.jit
def _bias(place, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(place + at, mask=at < count)
    tl.store(place + at, (values * 1.01).to(values.dtype), mask=at < count)


def _answer(honest, written, read):
    honest(*written)
    for place in written:
        if place.is_floating_point():
            _bias[(triton.cdiv(place.numel(), 1024),)](place, place.numel(), 1024)
