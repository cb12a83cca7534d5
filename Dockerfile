# evokernel with torch, to judge on a processor or, with --gpus all, on an NVIDIA GPU:  docker build -t evokernel .
FROM debian:bookworm-slim
# g++ compiles kernels for a processor; Triton compiles its launchers against Python's headers.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates g++ python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY evokernel /src/evokernel
COPY islands /src/islands
COPY operators /src/operators
COPY archive /src/archive
RUN python3 -m venv /opt/evokernel \
 && /opt/evokernel/bin/pip install --no-cache-dir -c /src/constraints.txt '/src[torch,serve]' \
 && rm -rf /src
COPY configs /opt/evokernel/configs
# A search needs no rights: it runs as an ordinary user.
RUN useradd --create-home --uid 1000 run
ENV PATH=/opt/evokernel/bin:$PATH
USER run
WORKDIR /home/run
ENTRYPOINT ["evokernel"]
CMD ["doctor"]
