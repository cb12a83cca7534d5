"""Tables in the trainers of TRL, where it is installed (pip install trl): two steps each with a model made here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archive.store import Store
from evokernel.training.dataset import write_dataset
from evokernel.training.rows import ReplyChoice
from evokernel.training.tables import TableChoice

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TRAINERS = {"SFT": ("sft", "fixes"), "DPO": ("preference",), "Reward": ("preference",), "KTO": ("preference",)}
Load = Callable[[], Any]


@pytest.fixture
def models(tmp_path: Path) -> tuple[Any, Load, Load]:
    """Return a tokenizer of bytes, and ways to a language model and to a reward model, all made here."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    signs = [*sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()), "<|pad|>", "<|im_start|>", "<|im_end|>"]
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={sign: number for number, sign in enumerate(signs)}, merges=[])
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<|pad|>", eos_token="<|im_end|>", chat_template=CHAT
    )
    sizes = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "vocab_size": len(signs), "max_position_embeddings": 4096,
        "pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id,
    }  # fmt: skip
    folder = str(tmp_path / "model")
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    reward = transformers.LlamaConfig(num_labels=1, **sizes)
    return (
        tokenizer,
        lambda: transformers.LlamaForCausalLM.from_pretrained(folder),
        lambda: transformers.LlamaForSequenceClassification(reward),
    )


@pytest.mark.parametrize("form", ["raw", "trl", "chatml"])
@pytest.mark.parametrize("method", TRAINERS)
def test_a_trainer_takes_the_tables(
    path: Path, ids: dict[str, str], tmp_path: Path, models: tuple[Any, Load, Load], method: str, form: str
) -> None:
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    tokenizer, language_model, reward_model = models
    if method == "KTO" and not hasattr(trl, "KTOTrainer"):
        trl = pytest.importorskip("trl.experimental.kto")
    with Store.open(path, write=False) as store:
        write_dataset(
            tmp_path / "data", [store], ReplyChoice(), tables=TableChoice(form=form), guide=lambda _: "Write C++."
        )
    for table in TRAINERS[method]:
        rows = datasets.load_dataset(str(tmp_path / "data"), table, cache_dir=str(tmp_path / "cache"))["train"]
        settings = getattr(trl, f"{method}Config")(
            output_dir=str(tmp_path / "out"), max_steps=2, per_device_train_batch_size=2, max_length=1024,
            report_to=[], save_strategy="no", use_cpu=True, bf16=False, disable_tqdm=True,
        )  # fmt: skip
        trainer = getattr(trl, f"{method}Trainer")(
            model=reward_model() if method == "Reward" else language_model(),
            args=settings, train_dataset=rows, processing_class=tokenizer,
        )  # fmt: skip
        assert trainer.train().training_loss > 0
