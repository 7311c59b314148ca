"""Published shapes of language models, with a pass's FLOPs and bytes, without torch."""

from typing import NamedTuple

# Of `transformer`: blocks, the width of a head, and how many tokens there are.
DECODER_LAYERS, DECODER_HEAD_WIDTH, DECODER_VOCABULARY = 4, 64, 8192


class LlamaShape(NamedTuple):
    """A model of Llama's family: grouped queries, rotary positions, SwiGLU, no biases.

    Attributes:
        width: of the residual stream; `inner` of the gated network.
        heads, kv_heads: of queries, and of the keys and values that groups of them share.
        tied: the table of embeddings makes the scores.
    """

    width: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    tied: bool

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def block_weights(self) -> int:
        attention = self.width * self.head_width * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.width * self.inner

    @property
    def read_weights(self) -> int:
        """All blocks, and the table of the scores."""
        return self.layers * self.block_weights + self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        embeddings = 0 if self.tied else self.vocabulary * self.width
        return self.read_weights + embeddings + (2 * self.layers + 1) * self.width

    def cached(self, batch: int, positions: int) -> int:
        return 2 * self.layers * batch * positions * self.kv_heads * self.head_width

    def linear_flops(self, batch: int, length: int) -> float:
        """Return FLOPs of the products with weights, with scores of the last token alone."""
        return 2.0 * batch * (length * self.layers * self.block_weights + self.vocabulary * self.width)

    def attention_flops(self, batch: int, length: int, before: int = 0) -> float:
        """Return FLOPs of attention's products for `length` tokens after `before`.

        Source: Dao, "FlashAttention-2", 2023, section 4.1, which counts no masked pair.
        """
        pairs = batch * (length * before + length * (length + 1) / 2)
        return 4.0 * pairs * self.layers * self.width


# By millions of parameters; 0 is not a published one, but runs in a blink.
# SmolLM 135M, Llama 3.2 1B and Llama 3.1 8B: https://huggingface.co, config.json of each.
LLAMA = {
    0: LlamaShape(64, 2, 4, 2, 96, 256, True),
    135: LlamaShape(576, 30, 9, 3, 1536, 49_152, True),
    1236: LlamaShape(2048, 16, 32, 8, 8192, 128_256, True),
    8030: LlamaShape(4096, 32, 32, 8, 14_336, 128_256, False),
}
LLAMA_MILLIONS = tuple(LLAMA)


class GptShape(NamedTuple):
    """A model of GPT-2's family, with positions for `length` tokens."""

    width: int
    layers: int
    heads: int
    length: int
    vocabulary: int

    @property
    def parameters(self) -> int:
        block = 12 * self.width**2 + 13 * self.width
        return (self.vocabulary + self.length + 2) * self.width + self.layers * block

    def linear_flops(self, batch: int, length: int) -> float:
        """Return FLOPs of the products with weights, forward, with scores at every position."""
        weights = 12 * self.layers * self.width**2 + self.vocabulary * self.width
        return 2.0 * batch * length * weights

    def attention_flops(self, batch: int, length: int) -> float:
        """Return FLOPs of attention's two products, forward, of unmasked pairs."""
        return 2.0 * self.layers * batch * length * (length + 1) * self.width


# By millions of parameters; 0 is not a published one. The vocabulary of 50257 is padded to a multiple of 64.
GPT2 = {
    0: GptShape(64, 2, 2, 64, 256),
    124: GptShape(768, 12, 12, 1024, 50_304),
    355: GptShape(1024, 24, 16, 1024, 50_304),
    1558: GptShape(1600, 48, 25, 1024, 50_304),
}
GPT2_MILLIONS = tuple(GPT2)
