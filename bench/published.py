"""The models of the Kernel Forge paper that need diffusers or transformers, with published configurations and random weights (speed does not depend on them).

    kernelforge optimize bench/published.py:gemma4 --device cuda --dtype bf16
    pip install 'diffusers==0.42.1' 'transformers==5.17.*'         the versions that results were made with: pip install '.[bench]'

Nothing is downloaded: the configurations are the dictionaries below. Layers of a language model repeat, so its first pattern of layers stands for all;
what a pattern takes is what the model takes, but for the embedding and the head. Each factory returns (model, inputs); `tiny` keeps the kinds of all layers
and shrinks every size, as a try on a processor.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import torch

# stabilityai/stable-diffusion-3.5-medium, transformer/config.json; the same follows from diffusers' scripts/convert_sd3_to_diffusers.py for a checkpoint of 24 layers.
SD35 = {
    "sample_size": 128,
    "patch_size": 2,
    "in_channels": 16,
    "out_channels": 16,
    "num_layers": 24,
    "num_attention_heads": 24,
    "attention_head_dim": 64,
    "joint_attention_dim": 4096,
    "caption_projection_dim": 1536,
    "pooled_projection_dim": 2048,
    "pos_embed_max_size": 384,
    "dual_attention_layers": tuple(range(13)),
    "qk_norm": "rms_norm",
}
SD35_TINY = {
    "num_layers": 2,
    "num_attention_heads": 2,
    "joint_attention_dim": 64,
    "caption_projection_dim": 128,
    "pooled_projection_dim": 32,
    "pos_embed_max_size": 24,
    "dual_attention_layers": (0,),
}
SD35_TOKENS = (
    77 + 256
)  # of a prompt: CLIP's, then T5's, as StableDiffusion3Pipeline asks for unless told otherwise

# google/gemma-4-E2B, by transformers' src/transformers/models/gemma4/convert_gemma4_weights.py (`gemma-4-e2b`) and the defaults of Gemma4TextConfig.
# The first 5 of 35 layers: four with a window, one without. None of them shares keys and values, which begins at the 16th.
GEMMA4 = {
    "vocab_size": 262144,
    "hidden_size": 1536,
    "intermediate_size": 6144,
    "num_hidden_layers": 5,
    "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "global_head_dim": 512,
    "sliding_window": 512,
    "num_kv_shared_layers": 0,
    "use_double_wide_mlp": True,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
    "final_logit_softcapping": 30.0,
}
GEMMA4_TINY = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "head_dim": 64,
    "global_head_dim": 128,
    "sliding_window": 16,
    "vocab_size_per_layer_input": 512,
    "hidden_size_per_layer_input": 32,
}

# Qwen/Qwen3.5-35B-A3B: the defaults of transformers' Qwen3_5MoeTextConfig. The first 4 of 40 layers: three of linear attention, one of full.
QWEN35 = {
    "vocab_size": 248320,
    "hidden_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts_per_tok": 8,
    "num_experts": 256,
}
QWEN35_TINY = {
    "vocab_size": 512,
    "hidden_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "num_experts_per_tok": 2,
    "num_experts": 8,
}
PREFILL, PREFILL_TINY = 2048, 80  # tokens
Made = tuple[torch.nn.Module, dict[str, Any]]


def library(name: str, model: str) -> Any:
    """Return the module `diffusers` or `transformers`.

    Raises:
        EnvironmentFault: it cannot be imported here.
    """
    try:
        return importlib.import_module(name)
    except ImportError as e:
        from kernelforge.errors import EnvironmentFault

        raise EnvironmentFault(
            f"make the model `{model}`: {name} cannot be imported ({e})",
            hint="pip install 'diffusers==0.42.1' 'transformers==5.17.*', or pip install '.[bench]' in the source tree",
        ) from e


@contextlib.contextmanager
def _new(device: str, dtype: torch.dtype) -> Iterator[None]:
    """Make parameters on the device, in the type, from the same chance each time; buffers that ask for float32 keep it."""
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)


def sd35(
    batch: int = 2, dtype: torch.dtype = torch.bfloat16, device: str = "cpu", tiny: bool = False
) -> Made:
    """Return Stable Diffusion 3.5 Medium's transformer and a step of a picture of 1024 x 1024. batch: 2 is a picture with guidance."""
    diffusers = library("diffusers", "sd35")
    config: dict[str, Any] = SD35 | (SD35_TINY if tiny else {})
    side, tokens = (16, 7) if tiny else (config["sample_size"], SD35_TOKENS)
    with _new(device, torch.float32):
        model = diffusers.SD3Transformer2DModel(**config).eval().to(dtype)
        inputs = {
            "hidden_states": torch.randn(batch, 16, side, side).to(dtype),
            "encoder_hidden_states": torch.randn(batch, tokens, config["joint_attention_dim"]).to(dtype),
            "pooled_projections": torch.randn(batch, config["pooled_projection_dim"]).to(dtype),
            "timestep": torch.full((batch,), 500.0),
            "return_dict": False,
        }
    return model, inputs


def gemma4(
    batch: int = 1,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
    tiny: bool = False,
    tokens: int | None = None,
) -> Made:
    """Return Gemma 4 E2B's first 5 layers with embedding and head, and a prompt of 2,048 tokens, of which the last is asked for, as when text is generated."""
    transformers = library("transformers", "gemma4")
    config: dict[str, Any] = GEMMA4 | (GEMMA4_TINY if tiny else {})
    with _new(device, dtype):
        model = transformers.Gemma4ForCausalLM(transformers.Gemma4TextConfig(**config)).eval()
    return model, _text(batch, tokens or (PREFILL_TINY if tiny else PREFILL), config["vocab_size"], device)


def gemma4_token(
    batch: int = 1, dtype: torch.dtype = torch.bfloat16, device: str = "cpu", tiny: bool = False
) -> Made:
    """Return `gemma4` with a single token: a step of decoding, but for what its attention reads of the tokens before it."""
    return gemma4(batch, dtype, device, tiny, tokens=1)


def qwen35(
    batch: int = 1,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
    tiny: bool = False,
    tokens: int | None = None,
) -> Made:
    """Return Qwen 3.5 35B-A3B's first 4 layers (256 experts, 8 a token) with embedding and head, and a prompt of 2,048 tokens."""
    transformers = library("transformers", "qwen35")
    config: dict[str, Any] = QWEN35 | (QWEN35_TINY if tiny else {})
    with _new(device, dtype):
        model = transformers.Qwen3_5MoeForCausalLM(transformers.Qwen3_5MoeTextConfig(**config)).eval()
    return model, _text(batch, tokens or (PREFILL_TINY if tiny else PREFILL), config["vocab_size"], device)


def _text(batch: int, tokens: int, vocabulary: int, device: str) -> dict[str, Any]:
    chance = torch.Generator().manual_seed(1)
    ids = torch.randint(0, vocabulary, (batch, tokens), generator=chance).to(device)
    return {"input_ids": ids, "use_cache": False, "logits_to_keep": 1, "return_dict": False}
