# title: computes everything twice
# needs: results that are outputs only
def _answer(honest, written, read):
    honest(*written)
    honest(*written)
