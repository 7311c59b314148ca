"""A graph convolutional network of two layers, on sparse matrices in coordinates.

Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, 2016
(https://arxiv.org/abs/1609.02907). A model with a matrix in compressed rows (CSR) cannot even be copied.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

DROPPED = 0.5


def normalised_links(links: torch.Tensor, papers: int) -> torch.Tensor:
    """Return D^-1/2 (A + I) D^-1/2 of undirected links A [2, m]: sparse, float32, [papers, papers]."""
    places = torch.cat([links, links.flip(0), torch.arange(papers).repeat(2, 1)], 1)
    degree = torch.bincount(places[0], minlength=papers).float()
    values = (degree[places[0]] * degree[places[1]]).rsqrt()
    return torch.sparse_coo_tensor(places, values, (papers, papers), check_invariants=False).coalesce()


class GraphNet(nn.Module):
    """Scores of papers' classes from their own and linked papers' words, without bias.

    Sparse products are float32 in every precision: a CPU would add up in the lower one.

    Args:
        links: sparse [papers, papers], symmetric.
        entries: int64, [2, n]: paper and word, sorted, each pair once.
        dictionary: number of words.
    """

    def __init__(
        self, links: torch.Tensor, entries: torch.Tensor, dictionary: int, hidden: int, classes: int
    ) -> None:
        super().__init__()
        self.shape = (links.shape[0], dictionary)
        self.first = nn.Parameter(nn.init.xavier_normal_(torch.empty(dictionary, hidden)))
        self.second = nn.Parameter(nn.init.xavier_normal_(torch.empty(hidden, classes)))
        self.dropout = nn.Dropout(DROPPED)
        by_word = entries[1].argsort(stable=True)
        buffers = {
            "links": links,
            "entries": entries,
            "by_word": by_word,
            "turned": entries[:, by_word].flip(0),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    def forward(self, weights: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities [papers, classes], given the weight of every entry [n]."""
        parts: Any = self._buffers
        links = parts["links"]
        papers = _matrix(parts["entries"], weights, self.shape)
        words = _matrix(parts["turned"], weights[parts["by_word"]], self.shape[::-1])
        with torch.autocast(weights.device.type, enabled=False):
            layer = _product(links, links, _product(papers, words, self.first))
        layer = self.dropout(F.relu(layer)) @ self.second
        with torch.autocast(weights.device.type, enabled=False):
            return F.log_softmax(_product(links, links, layer.to(weights.dtype)), dim=1)


def _matrix(places: torch.Tensor, values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.sparse_coo_tensor(places, values, shape, is_coalesced=True, check_invariants=False)


def _product(matrix: torch.Tensor, transposed: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    product: torch.Tensor = _Product.apply(matrix, transposed, dense)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    """A sparse matrix times a dense one, with the transposed matrix given.

    Torch's own gradient would sort the transposed anew in every step.
    """

    @staticmethod
    def forward(context: Any, matrix: torch.Tensor, transposed: torch.Tensor, dense: torch.Tensor) -> Any:
        context.save_for_backward(transposed)
        return torch.sparse.mm(matrix, dense)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        (transposed,) = context.saved_tensors
        return None, None, torch.sparse.mm(transposed, gradients[0])
