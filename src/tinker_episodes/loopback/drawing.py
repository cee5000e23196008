"""Drawing tokens from scores: this runs for every token of every sample."""

import torch
import torch.nn.functional as F
from torch import Tensor

_BLOCK = 64
"""Tokens whose probabilities are summed before they are cumulated. Sums are taken many numbers at a
time, while cumulating goes from one to the next: so it is done over blocks, then within one."""


def draw(scores: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens [rows] at which the cumulated probabilities pass each row's level, from 0 to 1,
    and the rows' normalisers [rows, 1], from scores [rows, vocabulary].
    """
    top = scores.amax(-1, keepdim=True)
    padding = -scores.shape[1] % _BLOCK
    padded = F.pad(scores - top, (0, padding), value=-torch.inf)
    weights = padded.exp_().view(len(scores), -1, _BLOCK)
    sums = weights.sum(-1)
    ends = sums.cumsum(-1)
    total = ends[:, -1:]
    passed = levels[:, None] * total
    block = torch.searchsorted(ends, passed, right=True).clamp_(max=ends.shape[1] - 1)
    # Rounding must not begin before the block, where a token without a chance would be found.
    rest = (passed - (ends - sums).gather(1, block)).clamp_(min=0)
    within = weights.gather(1, block[:, :, None].expand(-1, -1, _BLOCK))[:, 0].cumsum(-1)
    place = torch.searchsorted(within, rest, right=True)
    tokens = (block * _BLOCK + place)[:, 0]
    if int(place.max()) == _BLOCK:
        # Rounding can put a level at the very end of its block, where there is no token.
        tokens = torch.where(place[:, 0] < _BLOCK, tokens, scores.argmax(-1))
    return tokens, top + total.log()
