"""Earlier texts of built-in tasks with the same results, so that their stores can be resumed."""

from collections.abc import Mapping

_ON_A_PROCESSOR: Mapping[str, str] = {
    "b30c6ef64c8fb0db": (  # add_rmsnorm
        "ec4bfa4536bdf352 c0e7695949148263 81283c6a813ab95e beaf0c04e96aa7ea a305f7c34fa09cf6"
    ),
    "2df0ce5a4286bfbe": (  # attention
        "92fb5dee3326e8cd 592f420af158e21e b1cf8b65f2209de3"
    ),
    "672e3a7624adb06b": (  # conv2d_bias_relu
        "171ebb4b62a94a74 61558d7bfaa16165 e710b1d63d61d4fe edf61599ccbdb600 cde203445b28daad"
    ),
    "e1c29cc23f6ecadb": (  # cross_entropy
        "38d8ff5fdbb6128d 85e9a447c4b1990b b3bed6407cf65f3f 5ed51e9b45113416 5f2b29b2b325eaf5 "
        "2c1c010f9b7eb8dc a34e8a61a1c91392"
    ),
    "b08496653904b9a8": (  # cumsum
        "1fc2dd3fd65f6b67 50247ca92ffc797f 255b65bb07f6dea5 f1436dea6009aefb 6bc0752f75a87d35"
    ),
    "748bec73408afee0": (  # embedding
        "5d5f6b5e6c5038b1 c26a1c3bb9d613a4 48b67b6fb8b63b8d f437a12252296ecc fbabbf2bd7ea9d36"
    ),
    "113984732feeedcf": (  # gemm
        "76031bcafd71299f 5ee21010e87ba876 e22c01ffbe2e17f3"
    ),
    "c74190c2ad098446": (  # gemm_bias_gelu
        "1f10fa520fc9c1d1 d6a83b58a0104cc1 bdcaf2aabdcb3e0c 1026fa03b8bd94e5 9fac1ab2b687bf39"
    ),
    "37df0901d3fc5d5b": (  # gemm_deep
        "1f01189496fbe547"
    ),
    "7ecfca22ace3648a": (  # gemm_skinny
        "4ad9b1ae17c998d0 2a9f7833fd2ce1c6"
    ),
    "0da3e6a3c366ea79": (  # histogram
        "9b9a38b38fd84c8d a440c84c81ff25d6 5d58a76ac6205383 1d512e54e82850bc 61599f20bc87a5de"
    ),
    "812b205bb61284e6": (  # layernorm
        "97976035e9efe98b c3361a446ea917c8 152b570eceda357d fe68019eb0eaae53"
    ),
    "8818d5277e625d3a": (  # layernorm_backward
        "fd172162f3fbd73d 85d0ae8ab2e4d296 3b97295b0f796114 5c63eb0f6bc14e5f"
    ),
    "d984000d36a7086f": (  # rmsnorm
        "8319489bda0e3537 d25918dec215ba2f b4dcc3a6cf021e32 2834a7b5e01f07b3 8dec3bc9e931e5f6"
    ),
    "1fa9e43da7465abe": (  # silu_mul
        "226bcf02225c7822 47b1ed4e1d00ae15 cdfb506e41add5c6 49a48d2fbf5ffe46 d7f3deacc0b06f85"
    ),
    "edf7a303f400e0db": (  # softmax
        "2f4279e84d5577aa 3d3c87ed368957d5 069195a65060b346 d5c39f488d786f58 d6522e7206442c00 "
        "5e51155bd858e035 1eed73cdbfdfb05f b1368627229d0e23"
    ),
    "69bac28fd1a08222": (  # transpose
        "3e99dcc3467e0414 d10d4ed69e8262f5 2fc1e4815145d553 7befff46a3772aed 83362919d8645a6c"
    ),
}
"""Hashes of earlier texts by the current one. On a processor, reference, signature, workloads, tolerances and baselines
are the same. The texts differ in GPU parts (cuBLASLt, torch.compile), so on a GPU they are other tasks.

A changed text needs an entry under its own hash, or stores of the earlier text are refused. Compare the two tasks part
by part before you write one.
"""


def earlier_texts(text_hash: str, *, device: str) -> tuple[str, ...]:
    """Return the hashes of earlier texts that make the same task on a class of devices."""
    return tuple(_ON_A_PROCESSOR.get(text_hash, "").split()) if device == "cpu" else ()
