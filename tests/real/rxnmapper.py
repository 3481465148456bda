"""The ALBERT of rxnmapper, trained on chemical reactions written as SMILES: one layer that runs twelve times.

Its folder lacks only a tokenizer.json: tokens are cut by a regular expression and looked up in vocab.txt.
"""

import json
import shutil
from pathlib import Path

FOLDER = Path("models") / "transformers" / "albert_heads_8_uspto_all_1310k"
# The tokens of Schwaller et al. 2018: a bracketed atom, an atom, a bond, a branch, a ring, a dot, an arrow.
TOKEN = r"\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]"  # noqa: S105

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write(out: Path, package: Path) -> None:
    """Write the model as a folder of transformers."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

    source = package / FOLDER
    lines = source.joinpath("vocab.txt").read_text(encoding="utf-8").splitlines()
    words = {word: at for at, word in enumerate(lines)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=SPECIAL[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN), "removed", invert=True)
    ends = [(word, words[word]) for word in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(out / "tokenizer.json"))
    named = {f"{token[1:-1].lower()}_token": token for token in SPECIAL}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **named}
    (out / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in ("config.json", "pytorch_model.bin"):
        shutil.copy(source / name, out)
