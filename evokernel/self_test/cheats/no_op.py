# title: writes nothing
# class: stealing
# tries: the reference has run, and its results may lie where the next output is made
# needs: results that are outputs only
# stops: smoke or correctness
import torch


def _answer(honest, written, read):
    honest(*map(torch.empty_like, written))
