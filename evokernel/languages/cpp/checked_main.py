"""The trusted main around a candidate under sanitizers, made from a task's signature alone."""

from pathlib import Path

from evokernel.languages.cpp.checked_job import EXIT_BAD_JOB, EXIT_FOUND, MAGIC
from evokernel.languages.cpp.guide import C_TYPES, entry_signature
from evokernel.task import Signature, Tensor

SANITIZE = (
    "-std=c++20",
    "-O1",
    "-g",
    "-march=native",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)

_MAIN = Path(__file__).with_suffix(".cpp").read_text(encoding="utf-8")


def checked_main(signature: Signature) -> str:
    """Return a C++ main that reads jobs (see `checked_job`) and calls `run` once for each."""
    names = [tensor.name for tensor in signature.tensors]
    lines = []
    for number, argument in enumerate(signature.arguments):
        c_type = C_TYPES[argument.dtype]
        if isinstance(argument, Tensor):
            take = f"tensor<{c_type}>({names.index(argument.name)})"
        elif argument.dtype == "int64":
            take = "take<std::int64_t>()"
        else:
            take = f"static_cast<{c_type}>(take<double>())"
        lines.append(f"        auto value{number} = {take};")
    filled = {
        "ENTRY": entry_signature(signature),
        "TABLE": ", ".join(f'{{"{name}", nullptr, 0}}' for name in names),
        "TAKE": "\n".join(lines),
        "PASS": ", ".join(f"value{number}" for number in range(len(lines))),
        "MAGIC": MAGIC.decode(),
        "FOUND": str(EXIT_FOUND),
        "BAD_JOB": str(EXIT_BAD_JOB),
    }
    text = _MAIN
    for key, value in filled.items():
        text = text.replace(f"@{key}@", value)
    return text
