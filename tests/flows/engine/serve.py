"""Serve a llama of random weights with llama.cpp: `serve.py PORT`.

The weights take 45 MB, so that a token takes milliseconds on a core. The tokens are the 256 bytes and words.
"""

import signal
import sys

import numpy as np
from gguf import GGUFWriter, TokenType
from xllamacpp import CommonParams, Server

PATH, WORDS = "model.gguf", 741
WIDTH, HEADS, FEED, BLOCKS, CONTEXT = 384, 6, 1024, 6, 4096
TOKENS = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
KINDS = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256]


def write_model():
    draw = np.random.default_rng(0)
    tokens = [*TOKENS, *(f"\u2581word{number}".encode() for number in range(WORDS))]
    model = GGUFWriter(PATH, "llama")
    model.add_context_length(CONTEXT)
    model.add_embedding_length(WIDTH)
    model.add_feed_forward_length(FEED)
    model.add_block_count(BLOCKS)
    model.add_head_count(HEADS)
    model.add_head_count_kv(HEADS)
    model.add_rope_dimension_count(WIDTH // HEADS)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_vocab_size(len(tokens))
    model.add_tokenizer_model("llama")
    model.add_token_list(tokens)
    model.add_token_scores([0.0] * len(tokens))
    model.add_token_types([*KINDS, *[TokenType.NORMAL] * WORDS])
    model.add_unk_token_id(0)
    model.add_bos_token_id(1)
    model.add_eos_token_id(2)
    shapes = {"token_embd": (len(tokens), WIDTH), "output": (len(tokens), WIDTH), "output_norm": (WIDTH,)}
    for block in range(BLOCKS):
        own = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
        own |= {"ffn_gate": (FEED, WIDTH), "ffn_up": (FEED, WIDTH), "ffn_down": (WIDTH, FEED)}
        own |= {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
        shapes |= {f"blk.{block}.{name}": shape for name, shape in own.items()}
    for name, shape in shapes.items():
        weights = 1.0 if name.endswith("norm") else 0.05 * draw.standard_normal(shape)
        model.add_tensor(f"{name}.weight", np.full(shape, weights, np.float32))
    model.write_header_to_file()
    model.write_kv_data_to_file()
    model.write_tensors_to_file()
    model.close()


def main():
    write_model()
    asked = CommonParams()
    asked.model.path, asked.port = PATH, int(sys.argv[1])
    asked.n_parallel, asked.n_ctx = 8, CONTEXT
    asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = 1
    asked.cache_prompt, asked.endpoint_metrics = False, True  # each token of a prompt is computed and counted
    server = Server(asked)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
