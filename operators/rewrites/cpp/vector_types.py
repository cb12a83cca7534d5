"""GCC vector types of a source file: their declarations and the helper functions on them.

One lane-count constant per element type; a value type (`f32v`) and an element-aligned type for memory
(`f32v_u`), because rows of an array start anywhere.
"""

from dataclasses import dataclass

from operators.rewrites.cpp.base import NewTunable, add_include, add_lines, add_tunables
from operators.rewrites.cpp.ir.syntax import Program

LIBMVEC = frozenset(
    ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sin", "cos", "tan", "erf", "cbrt")
)


@dataclass(frozen=True, slots=True)
class VectorType:
    """A GCC vector type of one element type."""

    element: str
    """The element type."""
    name: str
    """The name of the vector type."""
    lanes: str
    """The tunable of its lane count."""
    default: int
    """The first value of that."""
    values: tuple[int, ...]
    """All its values."""

    @property
    def memory(self) -> str:
        """The type for loads and stores at any element."""
        return f"{self.name}_u"


VECTORS = {
    "float": VectorType("float", "f32v", "VF32", 16, (8, 16)),
    "double": VectorType("double", "f64v", "VF64", 8, (4, 8)),
    "int32_t": VectorType("int32_t", "i32v", "VI32", 16, (8, 16)),
    "int": VectorType("int", "i32v", "VI32", 16, (8, 16)),
}


def declare(program: Program, vector: VectorType) -> Program:
    """Return the program with the vector type, unless it has it."""
    if f" {vector.name} __attribute__" in program.head:
        return program
    program = add_tunables(program, [NewTunable(vector.lanes, vector.default, vector.values)])
    size = f"vector_size({vector.lanes} * sizeof({vector.element}))"
    return add_lines(
        program,
        [
            f"typedef {vector.element} {vector.name} __attribute__(({size}));",
            f"typedef {vector.element} {vector.memory} __attribute__(({size}, aligned(sizeof({vector.element}))));",
        ],
    )


def reduce_name(vector: VectorType, op: str) -> str:
    """Return the name of the helper that combines all lanes."""
    return f"{ {'+': 'sum', '*': 'product', 'max': 'max', 'min': 'min'}[op] }_{vector.name}"


def declare_reduce(program: Program, vector: VectorType, op: str) -> Program:
    """Return the program with the helper that combines all lanes, pairwise."""
    name = reduce_name(vector, op)
    if f" {name}(" in program.head:
        return program
    joined = {"+": "v + t", "*": "v * t", "max": "t > v ? t : v", "min": "t < v ? t : v"}[op]
    return add_lines(
        program,
        [
            f"static inline {vector.element} {name}({vector.name} v) {{",
            "#pragma GCC unroll 8",
            f"  for (int w = {vector.lanes} / 2; w > 0; w /= 2) {{",
            f"    {vector.name} t = v;",
            "#pragma GCC unroll 16",
            f"    for (int l = 0; l < {vector.lanes}; ++l) t[l] = v[l ^ w];",
            f"    v = {joined};",
            "  }",
            "  return v[0];",
            "}",
        ],
    )


def function_name(function: str, element: str) -> str:
    """Return the C name of a math function for an element type (`expf`)."""
    return function + ("f" if element == "float" else "")


def declare_simd(program: Program, function: str, element: str) -> Program:
    """Redeclare a math function so that the compiler may call its vector variants from libmvec."""
    name = function_name(function, element)
    text = f'extern "C" __attribute__((simd("notinbranch"), const)) {element} {name}({element}) noexcept;'
    return program if text in program.head else add_lines(add_include(program, "cmath"), [text])


def declare_function(program: Program, vector: VectorType, function: str) -> Program:
    """Return the program with the lane-wise form of a math function."""
    name = f"{function}_{vector.name}"
    if f" {name}(" in program.head:
        return program
    if function in LIBMVEC:
        program = declare_simd(program, function, vector.element)
    call = ("__builtin_" if function == "fabs" else "") + function_name(function, vector.element)
    return add_lines(
        program,
        [
            f"static inline {vector.name} {name}({vector.name} v) {{",
            f"  {vector.element} x[{vector.lanes}];",
            f"  ({vector.memory}&)x[0] = v;",
            f"  for (int l = 0; l < {vector.lanes}; ++l) x[l] = {call}(x[l]);",
            f"  return ({vector.memory}&)x[0];",
            "}",
        ],
    )
