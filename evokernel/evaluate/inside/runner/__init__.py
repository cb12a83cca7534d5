"""The trusted runner: launches recorded kernels; no host code of a candidate runs here."""
