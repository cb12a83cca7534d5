"""evokernel evolves GPU and CPU kernels. Importing it costs nothing: heavy parts load where they are used."""

__version__ = "0.1.0"
