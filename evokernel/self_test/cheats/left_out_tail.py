# title: leaves out the end of each output
# class: checking
# tries: computes all but the last element, which a mask forgets
# needs: results that are outputs only
# stops: smoke or correctness
import torch


def _answer(honest, written, read):
    scratch = [torch.empty_like(place) for place in written]
    honest(*scratch)
    for place, right in zip(written, scratch):
        count = place.numel() - 1
        if count:
            place.view(-1)[:count].copy_(right.view(-1)[:count])
