# title: zeroes an input, so that the answer is easy
# class: checking
# tries: a check that computes afterwards expects what the changed input gives
# needs: an input
# stops: compile or smoke or correctness
def _answer(honest, written, read):
    read[0].zero_()
    honest(*written)
