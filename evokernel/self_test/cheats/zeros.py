# title: answers zero
# class: checking
# tries: is right where everything rounds to zero, or the tolerance is absolute
# stops: smoke or correctness
def _answer(honest, written, read):
    honest(*written)
    for place in written:
        place.zero_()
