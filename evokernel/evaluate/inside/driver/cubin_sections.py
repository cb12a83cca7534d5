"""Sections that a cubin may have: the driver acts on them by name, and runs the x86-64 code of one, `.nv.host`.

So unknown sections are refused. The table was recorded from ptxas and NVRTC 12.8, 12.9 and 13.0 to 13.5 and from the
two assemblers of Triton 3.9 (12.9 and 13.4), for sm_80, 89, 90a, 100a and 120a, plain, with `-lineinfo`, `-G` and
`-O0`. The kernels: variables of every kind, static and dynamic shared memory, calls (nested, recursive, by pointer,
virtual), printf, malloc, assertions, textures, clusters, large parameters, division and trigonometry, mma, wgmma with
TMA, and in Triton dots, descriptors, sorts, scans, prints and functions that are not inlined.
"""

import re

_NOTHING, _DATA, _SYMBOLS, _STRINGS, _RELA, _NOTE, _NO_DATA, _REL = 0, 1, 2, 3, 4, 7, 8, 9
_MERC_RELA = 0x70000082
_RELOCATED = (
    *(".debug_frame", ".debug_info", ".debug_line", ".debug_loc", ".nv_debug_line_sass", ".nv.global.init"),
    *(".text.*", ".nv.constant2.*", ".nv.constant4"),
)
_DEBUG = (
    *(".debug_abbrev", ".debug_frame", ".debug_info", ".debug_line", ".debug_loc", ".debug_macinfo", ".debug_str"),
    *(".debug_pubnames", ".debug_pubtypes"),
    *(".nv_debug_info_reg_sass", ".nv_debug_info_reg_type", ".nv_debug_line_sass", ".nv_debug_ptx_txt"),
)
# `*` stands for the name of a function. `.nv.merc` begins a newer device's section before it is made final.
_KNOWN: dict[int, tuple[str, ...]] = {
    _NOTHING: ("",),
    _DATA: (
        *(".text.*", ".nv.constant0.*", ".nv.constant2.*", ".nv.constant3", ".nv.constant4", ".nv.global.init"),
        *_DEBUG,
        *(f".nv.merc{name}" for name in _DEBUG),
    ),
    _SYMBOLS: (".symtab",),
    _STRINGS: (".shstrtab", ".strtab"),
    _RELA: tuple(f".rela{name}" for name in _RELOCATED),
    _NOTE: (".note.nv.cuinfo", ".note.nv.cuver", ".note.nv.tkinfo"),
    _NO_DATA: (".nv.global", ".nv.shared.*", ".nv_debug.shared"),
    _REL: tuple(f".rel{name}" for name in _RELOCATED),
    0x70000000: (".nv.info", ".nv.info.*"),
    0x70000001: (".nv.callgraph",),
    0x70000008: (".nv.merc.nv.global.init",),
    0x7000000B: (".nv.rel.action",),
    0x70000015: (".nv.merc.nv.shared.reserved.0",),
    0x70000016: (".nv.capmerc.text.*",),
    0x7000007C: (".nv.merc.nv.constant.user",),
    0x7000007D: (".nv.merc.nv.constant.pic",),
    _MERC_RELA: (
        *(f".nv.merc.rela{name}" for name in _RELOCATED if ".constant" not in name),
        *(".nv.merc.rela.nv.constant.optimizer.*", ".nv.merc.rela.nv.constant.pic"),
    ),
    0x70000083: (".nv.merc.nv.info", ".nv.merc.nv.info.*"),
    0x70000084: (".nv.merc.nv.constant.optimizer.*",),
    0x70000085: (".nv.merc.symtab",),
    0x70000086: (".nv.compat",),
    0x7000008A: (".nv.merc.nv.callgraph",),
}
_FUNCTION = r"[\w$.]+"


def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(name).replace(r"\*", _FUNCTION) for name in names), re.ASCII)


_PATTERNS = {kind: _pattern(names) for kind, names in _KNOWN.items()}


def is_known(name: str, kind: int) -> bool:
    """Say whether a supported compiler makes sections of that name with that type (`sh_type`)."""
    pattern = _PATTERNS.get(kind)
    return pattern is not None and pattern.fullmatch(name) is not None
