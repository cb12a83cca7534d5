"""Plain CUDA seeds and what rewrites make of them, run on the processor for sizes that fit no block."""

import re
import subprocess
from pathlib import Path

from evokernel.source.tunables import read_tunables

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
# Inputs are small fractions; what lies behind the output must stay as it is.
GEMM = """
int main(int count, char** sizes) {
    for (int at = 1; at < count; at += 3) {
        const int M = atoi(sizes[at]), N = atoi(sizes[at + 1]), K = atoi(sizes[at + 2]);
        std::vector<bf16> a(M * K), b(K * N), c(M * N + 64, 0x7777);
        for (auto& value : a) value = rounded(rand() % 201 / 100.0f - 1);
        for (auto& value : b) value = rounded(rand() % 201 / 100.0f - 1);
        const int across = (N + BLOCK_N - 1) / BLOCK_N, down = (M + BLOCK_M - 1) / BLOCK_M;
        launch(across, down, THREADS, [&] { gemm(a.data(), b.data(), c.data(), M, N, K); });
        for (int i = 0; i < M * N; ++i) {
            double sum = 0;
            for (int k = 0; k < K; ++k) sum += double(bf16_of(a[i / N * K + k])) * bf16_of(b[k * N + i % N]);
            const double off = std::fabs(bf16_of(c[i]) - sum);
            if (!(off <= std::fabs(sum) / 250 + 1e-5 * K)) return printf("%d: %g, not %g", i, bf16_of(c[i]), sum), 1;
        }
        for (int i = M * N; i < c.size(); ++i)
            if (c[i] != 0x7777) return printf("written %d behind the end", i - M * N), 1;
    }
}
"""
SOFTMAX = """
int main(int count, char** sizes) {
    for (int at = 1; at < count; at += 2) {
        const int R = atoi(sizes[at]), C = atoi(sizes[at + 1]);
        std::vector<float> x(R * C), y(R * C + 64, 7.0f);
        for (auto& value : x) value = rand() % 20001 / 1000.0f - 10;
        launch(R, 1, THREADS, [&] { softmax(x.data(), y.data(), C); });
        for (int i = 0; i < R * C; ++i) {
            double sum = 0;
            for (int k = 0; k < C; ++k) sum += std::exp(double(x[i / C * C + k]) - x[i]);
            if (!(std::fabs(y[i] * sum - 1) <= 1e-4)) return printf("%d: %g, not %g", i, y[i], 1 / sum), 1;
        }
        for (int i = R * C; i < y.size(); ++i)
            if (y[i] != 7.0f) return printf("written %d behind the end", i - R * C), 1;
    }
}
"""
HISTOGRAM = """
int main(int count, char** sizes) {
    for (int at = 1; at < count; at += 2) {
        const int N = atoi(sizes[at]), B = atoi(sizes[at + 1]);
        std::vector<int> x(N), counts(B + 64, 0), due(B, 0);
        for (auto& value : x) due[value = rand() % B] += 1;
        for (int i = B; i < counts.size(); ++i) counts[i] = 77;
        launch(BLOCKS, 1, THREADS, [&] { histogram(x.data(), counts.data(), N, B); });
        for (int bin = 0; bin < B; ++bin)
            if (counts[bin] != due[bin]) return printf("%d: %d, not %d", bin, counts[bin], due[bin]), 1;
        for (int i = B; i < counts.size(); ++i)
            if (counts[i] != 77) return printf("written %d behind the end", i - B), 1;
    }
}
"""
MAINS = {"gemm": GEMM, "softmax": SOFTMAX, "histogram": HISTOGRAM}
SIZES = {
    "histogram": "1 1  5 257  10000 37  70001 4096  5000 5001",
    "gemm": "1 1 1  1 8 16  70 65 33  64 64 32  130 9 100  5 200 1  257 66 47",
    "softmax": "1 1  3 2  2 1000  5 257  1 33  1 1025",
}


def run_on_cpu(task: str, source: str, folder: Path, *, sizes: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a seed's CUDA C++ on sizes, those of `SIZES` if none; what is written in PTX the header has in C++."""
    (text,) = re.findall(r'r"""(.*?)"""', source, re.DOTALL)
    text = re.sub(r"^__device__ (?:void multiply|bf16 rounded)\(.*?^}\n", "", text, flags=re.DOTALL | re.MULTILINE)
    macros = [f"#define {name} {value}\n" for name, value in read_tunables(source).values.items()]
    program = folder / "seed"
    code = "".join([f'#include "{HEADER}"\n', *macros, text, MAINS[task]])
    program.with_suffix(".cpp").write_text(code)
    aligned = ["-fsanitize=alignment", "-fno-sanitize-recover=all"]
    command = ["g++", "-O1", "-w", "-std=c++17", *aligned, f"{program}.cpp", "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return subprocess.run(
        [program, *(sizes or SIZES[task]).split()], capture_output=True, text=True, timeout=300, check=False
    )
