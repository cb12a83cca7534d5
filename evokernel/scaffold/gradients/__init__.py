"""Forward and backward of a PyTorch function as two operations, each of which is searched alone."""
