# title: computes into memory of its own, and copies
# needs: results that are outputs only
import torch


def _answer(honest, written, read):
    scratch = [torch.empty_like(place) for place in written]
    honest(*scratch)
    for place, right in zip(written, scratch):
        place.copy_(right)
