"""Serves a real small model on 127.0.0.1 by the chat-completions protocol: `python small_model.py FILE.gguf`.

Prints its address, and ends when its standard input does.
"""

import sys

import xllamacpp


def main(weights: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.port = 0  # any that is free
    params.n_ctx = 8192
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
