# title: passes an input through
# class: checking
# tries: inputs are like results in shape and size
# needs: an input like a result
# stops: smoke or correctness
def _answer(honest, written, read):
    honest(*written)
    for place in written:
        like = [each for each in read if each.shape == place.shape and each.dtype == place.dtype]
        if like:
            place.copy_(like[0])
