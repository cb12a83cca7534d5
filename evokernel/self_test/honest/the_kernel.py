# title: the kernel itself
def _answer(honest, written, read):
    honest(*written)
