"""Train the small model that comes with qkv: two layers of attention that learn to copy.

    python examples/train_induction.py                            two minutes on one core, then about 99 % right
    python examples/train_induction.py --steps 2 --out try.safetensors

Tested with: --steps 2 --out try.safetensors

Every sequence is a random string of symbols that starts over: its second half can be known from its first, and from
nothing else. The only way to do it is to look back for the current symbol and read off the one after it, which
takes two layers: one to tell each position what stands before it, one to search. The period is random, so that no
fixed distance will do. Written in torch; what it saves is what `qkv.models.induction` reads and runs in NumPy.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import qkv
from qkv.models.induction import Induction

N_SYMBOLS, D_MODEL, N_HEADS, N_LAYERS, LENGTH = 64, 64, 4, 2, 64
BATCH, LEARNING_RATE = 64, 2e-3


class Attention(nn.Module):
    """x + attention(norm(x)), (B, n, d_model) -> (B, n, d_model)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(D_MODEL)
        self.q, self.k, self.v, self.o = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(4))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        y = self.norm(x)
        # Positions join what is compared and not what is carried: the residual stream holds symbols only.
        q, k, v = self.heads(self.q(y + positions)), self.heads(self.k(y + positions)), self.heads(self.v(y))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.o(mixed.transpose(1, 2).flatten(2))

    @staticmethod
    def heads(x: Tensor) -> Tensor:
        """Split the width: (B, n, d_model) -> (B, n_heads, n, d_k)."""
        return x.unflatten(-1, (N_HEADS, -1)).transpose(1, 2)


class Copier(nn.Module):
    """Symbols in, logits of the symbol that follows out: (B, n) -> (B, n, N_SYMBOLS)."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(N_SYMBOLS, D_MODEL)
        self.positions = nn.Parameter(0.3 * torch.randn(LENGTH, D_MODEL))
        self.layers = nn.ModuleList(Attention() for _ in range(N_LAYERS))
        self.norm = nn.LayerNorm(D_MODEL)
        self.unembed = nn.Linear(D_MODEL, N_SYMBOLS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.symbols(ids)
        for layer in self.layers:
            x = layer(x, self.positions[: ids.shape[1]])
        return self.unembed(self.norm(x))

    def arrays(self) -> dict[str, Tensor]:
        """The weights under the names of the file."""
        short = {"symbols": "e", "positions": "pos", "layers": "b", "norm": "ln", "unembed": "u"}
        state = self.state_dict()
        return {".".join(short.get(part, part) for part in name.split(".")): state[name] for name in state}


def repeated(rng: np.random.Generator, period: int, count: int, length: int = LENGTH) -> Tensor:
    """Random strings that start over after `period` symbols, (count, length)."""
    once = rng.integers(0, N_SYMBOLS, (count, period))
    return torch.from_numpy(np.tile(once, math.ceil(length / period))[:, :length])


def loss_of(model: Copier, ids: Tensor, period: int) -> Tensor:
    """Cross-entropy in nats, only where the answer stands in the text: from the second round on."""
    logits = model(ids[:, :-1])[:, period:]
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, period + 1 :].flatten())


def train(steps: int, seed: int) -> Copier:
    """A model after this many batches."""
    torch.manual_seed(seed)
    rng, model, start = np.random.default_rng(seed), Copier(), time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(1, steps + 1):
        period = int(rng.integers(8, LENGTH // 2))
        loss = loss_of(model, repeated(rng, period, BATCH), period)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 250 == 0 or step == steps:
            print(f"step {step}: loss {loss.item():.3f} nats, {time.perf_counter() - start:.0f} s")
    return model


def look(model: Copier, period: int = 28) -> None:
    """Say how well it copies, and which heads do it, from the maps of qkv."""
    ours = Induction.from_arrays({name: tensor.numpy() for name, tensor in model.arrays().items()})
    ids = repeated(np.random.default_rng(1), period, 32, 2 * period).numpy()
    right, scores = [], []
    for row in ids:
        run = ours.run(row)
        right.append(run.output[period:-1].argmax(-1) == row[period + 1 :])
        # A previous-token head looks one back; an induction head, from the second round on, period − 1 back.
        before = run.maps[0].measure(qkv.measures.diagonal(-1))[0][:, 1:]
        again = run.maps[1].measure(qkv.measures.diagonal(1 - period))[0][:, period:]
        scores.append([before.mean(-1), again.mean(-1)])
    before, again = (" ".join(f"{each:.2f}" for each in row) for row in np.mean(scores, axis=0))
    print(f"{np.mean(right):.1%} right in the second round (chance {1 / N_SYMBOLS:.1%})")
    print(f"layer 0, mean weight on the previous position: {before}")
    print(f"layer 1, mean weight on what followed last time: {again}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train two layers of attention to copy.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("induction.safetensors"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # matrices this small are slower on several cores
    model = train(arguments.steps, arguments.seed)
    save_file({name: tensor.contiguous() for name, tensor in model.arrays().items()}, arguments.out)
    print(f"saved {arguments.out}")
    look(model)


if __name__ == "__main__":
    main()
