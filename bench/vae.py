"""The decoder of Stable Diffusion 3.5's image autoencoder, as a model for benchmarks: `kernelforge optimize bench/vae.py:make --device cuda --dtype bf16`.

With `diffusers` installed it is diffusers' own AutoencoderKL. Without, the same decoder in plain torch, operator by operator: the modules below follow
`Decoder`, `UNetMidBlock2D`, `UpDecoderBlock2D`, `ResnetBlock2D`, `Upsample2D` and `AttnProcessor2_0` of diffusers 0.32 to 0.42 (the division by the
output scale of 1 included, which runs as an operator). Weights are random: speed does not depend on them.

Source of the configuration: `vae/config.json` of stabilityai/stable-diffusion-3.5-medium; the same values stand in diffusers'
scripts/convert_sd3_to_diffusers.py (the SDXL autoencoder's with 16 latent channels and no quantization convolutions).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

CHANNELS = (128, 256, 512, 512)
LATENT_CHANNELS, LAYERS, GROUPS, EPS = 16, 2, 32, 1e-6
LATENT_SIDE = 128  # of a picture of 1024 x 1024


class Resnet(nn.Module):
    """Two normed, activated convolutions beside a shortcut."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(GROUPS, inside, EPS), nn.Conv2d(inside, outside, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(GROUPS, outside, EPS), nn.Conv2d(outside, outside, 3, padding=1)
        self.dropout = nn.Dropout(0.0)
        self.conv_shortcut = nn.Conv2d(inside, outside, 1) if inside != outside else None
        self.output_scale_factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(self.dropout(F.silu(self.norm2(h))))
        if self.conv_shortcut is not None:
            x = self.conv_shortcut(x)
        return (x + h) / self.output_scale_factor


class Attention(nn.Module):
    """One head over all places of the map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.group_norm = nn.GroupNorm(GROUPS, channels, EPS)
        self.to_q, self.to_k, self.to_v = (nn.Linear(channels, channels) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(channels, channels), nn.Dropout(0.0)])
        self.rescale_output_factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        h = x.view(batch, channels, height * width).transpose(1, 2)
        h = self.group_norm(h.transpose(1, 2)).transpose(1, 2)
        q, k, v = (
            to(h).view(batch, -1, 1, channels).transpose(1, 2) for to in (self.to_q, self.to_k, self.to_v)
        )
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False)
        h = h.transpose(1, 2).reshape(batch, -1, channels).to(q.dtype)
        h = self.to_out[1](self.to_out[0](h))
        h = h.transpose(-1, -2).reshape(batch, channels, height, width)
        return (h + x) / self.rescale_output_factor


class Upsample(nn.Module):
    """Twice the side, then a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))  # type: ignore[no-any-return]


class UpBlock(nn.Module):
    """Resnets of one resolution, then the step to the next."""

    def __init__(self, inside: int, outside: int, *, last: bool) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(
            Resnet(inside if i == 0 else outside, outside) for i in range(LAYERS + 1)
        )
        self.upsamplers = None if last else nn.ModuleList([Upsample(outside)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for resnet in self.resnets:
            x = resnet(x)
        return x if self.upsamplers is None else self.upsamplers[0](x)  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Latents (N, 16, S, S) -> picture (N, 3, 8 S, 8 S)."""

    def __init__(self) -> None:
        super().__init__()
        widths = CHANNELS[::-1]
        self.conv_in = nn.Conv2d(LATENT_CHANNELS, widths[0], 3, padding=1)
        self.mid_resnets = nn.ModuleList([Resnet(widths[0], widths[0]) for _ in range(2)])
        self.mid_attention = Attention(widths[0])
        before = (widths[0], *widths)
        self.up_blocks = nn.ModuleList(
            UpBlock(before[i], width, last=i == len(widths) - 1) for i, width in enumerate(widths)
        )
        self.conv_norm_out = nn.GroupNorm(GROUPS, widths[-1], EPS)
        self.conv_out = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_in(x)
        x = self.mid_resnets[1](self.mid_attention(self.mid_resnets[0](x)))
        for block in self.up_blocks:
            x = block(x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))  # type: ignore[no-any-return]


def decoder() -> tuple[nn.Module, str]:
    """Return the decoder with random weights, and where its code comes from."""
    try:
        import diffusers  # type: ignore[import-not-found]
    except ImportError:
        return Decoder(), "written in plain torch after diffusers (not installed here)"
    vae = diffusers.AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * len(CHANNELS),
        up_block_types=("UpDecoderBlock2D",) * len(CHANNELS),
        block_out_channels=CHANNELS,
        layers_per_block=LAYERS,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=GROUPS,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )
    return vae.decoder, f"diffusers {diffusers.__version__}"


def make(
    batch: int = 1, dtype: torch.dtype = torch.bfloat16, device: str = "cpu", side: int = LATENT_SIDE
) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return (decoder, (latents,)): a picture of 8 x `side`."""
    torch.manual_seed(0)
    model, _ = decoder()
    latents = torch.randn(batch, LATENT_CHANNELS, side, side)
    return model.eval().to(device, dtype), (latents.to(device, dtype),)
