"""Sites of norms, softmax and pools that the families for CUDA need beside those of test_templates_norm_pool.py: rows that several blocks share, lines that
no thread can keep, more channels than threads, odd planes inside a group, windows that a team adds up.

`small()` for the CPU, block by block; `large()` for a device.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kernelforge import _ext
from proving import Site

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def _t(*sizes: int, dtype: torch.dtype = F32, seed: int = 0) -> torch.Tensor:
    return (torch.randn(sizes, generator=torch.Generator().manual_seed(seed + sum(sizes))) * 2).to(dtype)


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _softmax(
    x: torch.Tensor, dim: int, points: str = "default", families: int = 1, log: bool = False
) -> Site:
    return Site("aten::_log_softmax" if log else "aten::_softmax", ((x, dim, False),), points, families)


def _layer_norm(x: torch.Tensor, points: str = "default", families: int = 1, affine: bool = True) -> Site:
    n = x.shape[-1]
    weight, bias = (_t(n, dtype=x.dtype, seed=1), _t(n, dtype=x.dtype, seed=2)) if affine else (None, None)
    return Site("aten::native_layer_norm", ((x, [n], weight, bias, 1e-5),), points, families)


def _rms_norm(x: torch.Tensor, points: str = "default", families: int = 1) -> Site:
    return Site(
        "aten::_fused_rms_norm",
        ((x, [x.shape[-1]], _t(x.shape[-1], dtype=x.dtype, seed=1), 1e-6),),
        points,
        families,
    )


def _group_norm(
    x: torch.Tensor, groups: int, points: str = "default", families: int = 1, affine: bool = True
) -> Site:
    n, c = x.shape[:2]
    weight, bias = (_t(c, dtype=x.dtype, seed=1), _t(c, dtype=x.dtype, seed=2)) if affine else (None, None)
    arguments = (x + 0.3, weight, bias, n, c, x[0, 0].numel(), groups, 1e-5)
    return Site("aten::native_group_norm", (arguments,), points, families)


def _composite(x: torch.Tensor, groups: int, points: str = "default", families: int = 1) -> Site:
    """The composite of channels, as torch before 2.14 has it on CUDA: without statistics, into planes."""
    weight, bias = _t(x.shape[1], dtype=x.dtype, seed=1), _t(x.shape[1], dtype=x.dtype, seed=2)
    arguments = (x + 0.3, groups, weight, bias, 1e-5, True)
    return Site("aten::group_norm", (arguments,), points, families, planes=True)


def _lines(planes: bool) -> list[Site]:
    """Group norms of channels: groups of several vectors, of part of one, of one channel, across vectors; squares that are not full; odd planes."""
    sites = [
        _group_norm(_last(_t(2, 16, 9, 8, dtype=BF16)), 2, "axes"),
        _group_norm(_last(_t(1, 64, 16, 20)), 4),
        _group_norm(_last(_t(3, 32, 7, 8, dtype=F16)), 32),
        _group_norm(_last(_t(1, 128, 24, 20, dtype=BF16)), 32),
        _group_norm(_last(_t(2, 24, 31, 32)), 3, "axes"),
        _group_norm(_last(_t(2, 40, 7, 9, dtype=BF16)), 4, "axes"),
        _group_norm(_last(_t(1, 36, 35, 33)), 4),
    ]
    return [replace(s, planes=planes) for s in sites]


def _batch_norm(x: torch.Tensor, overload: str = "native_batch_norm", parameters: torch.dtype = F32) -> Site:
    n = x.shape[1]
    weight, bias, mean = (_t(n, dtype=parameters, seed=seed) for seed in (1, 2, 3))
    variance = _t(n, dtype=parameters, seed=4).abs() + 0.1
    return Site(f"aten::{overload}", ((x, weight, bias, mean, variance, False, 0.1, 1e-5),))


def _max_pool(
    x: torch.Tensor, points: str = "default", overload: str = "max_pool2d_with_indices", families: int = 1
) -> Site:
    return Site(f"aten::{overload}", ((x, [3, 3], [2, 2], [1, 1], [1, 1], False),), points, families)


def _adaptive(x: torch.Tensor, size: list[int], points: str = "default") -> Site:
    return Site("aten::_adaptive_avg_pool2d", ((x, size),), points)


def small() -> list[Site]:
    return [
        _softmax(_t(3, 8192), 1, "axes", families=2),
        _softmax(_t(3, 8192, dtype=BF16), 1, families=2),
        _softmax(_t(2, 9001, dtype=F16), 1, families=2),
        _softmax(_t(1, 40000), 1, log=True),
        _softmax(_t(1, 84003, dtype=BF16), 1, families=2),  # a cluster of two
        _softmax(_t(2, 20000, dtype=F64), 1, log=True),
        _softmax(_t(3000, 8), 0),
        _softmax(_t(2, 3000, 6, dtype=BF16), 1),
        _softmax(_t(2, 300, 4, 16, dtype=BF16), 1, "axes"),
        _softmax(_t(3, 16, 7, 24, dtype=BF16), 1, "axes", families=2),
        _softmax(_t(2, 21, 65), 1, families=2, log=True),
        _layer_norm(_t(2, 8200), families=2),
        _layer_norm(_t(2, 16384, dtype=BF16), families=2),
        _layer_norm(_t(2, 40001), affine=False),
        _layer_norm(_t(1, 20000, dtype=F64)),
        _rms_norm(_t(2, 8192, dtype=BF16), "axes", families=2),
        _rms_norm(_t(1, 33004, dtype=F16)),  # of odd rows eager on a device makes NaN where the host does not
        _layer_norm(_t(1003, 100, dtype=BF16), families=2),  # rows one after the other
        _rms_norm(_t(517, 520, dtype=F16), families=3),
        _layer_norm(_t(513, 768, dtype=BF16), "axes", families=3),  # whole vectors for every thread
        _layer_norm(_t(5, 1024) + 100, "axes", families=2),  # of a mean that is large beside the deviation
        _layer_norm(_t(5, 1536) + 12),  # and nearly so
        _layer_norm(_t(514, 512, dtype=F64), families=3),
        _rms_norm(_t(6, 2048), "axes", families=2),
        _group_norm(_t(2, 8, 64, 33), 2, "axes", families=2),
        _group_norm(_t(1, 6, 55, 53, dtype=BF16), 2, families=2),
        _group_norm(_t(1, 4, 96, 200, dtype=F16), 1),
        _group_norm(
            _t(3, 2, 272, 280, dtype=BF16), 1, families=4
        ),  # a team of blocks takes one group after the other
        _rms_norm(_t(1, 65536), families=4),
        _layer_norm(_t(7, 131072, dtype=F16), families=4),  # more rows than a ring holds
        _rms_norm(_t(5, 65536), "axes", families=4),
        # Planes of whole steps of a block: parts of one channel and of several, three parts, clusters of 2 to 8.
        _group_norm(_t(2, 8, 64, 32, dtype=BF16), 1, "axes", families=4),
        _group_norm(_t(1, 6, 64, 64, dtype=F16), 2, families=3),
        _group_norm(_t(2, 8, 64, 32), 2, families=4, affine=False),
        _group_norm(_t(1, 2, 32, 512, dtype=BF16), 2, families=4),
        _group_norm(_t(1, 8, 32, 64), 1, families=4),
        _group_norm(_t(1, 8, 32, 64, dtype=F64), 1),
        *_lines(False),
        *_lines(True),
        _composite(_last(_t(2, 64, 9, 16, dtype=BF16)), 8, "axes"),
        _composite(_last(_t(2, 40, 7, 9, dtype=F16)), 4),
        _max_pool(_t(2, 3, 19, 40), "axes"),
        _max_pool(_t(2, 3, 19, 40, dtype=BF16), "axes", "max_pool2d"),
        _max_pool(_t(2, 3, 19, 40, dtype=F16), "axes", families=3),
        _max_pool(_t(3, 20, 16, dtype=BF16), families=3),
        _max_pool(_last(_t(2, 24, 19, 20, dtype=BF16)), "axes", "max_pool2d"),
        _adaptive(_t(1, 3, 33, 35), [2, 3], "axes"),
        _adaptive(_last(_t(1, 24, 20, 21, dtype=BF16)), [3, 2], "axes"),
    ]


def large() -> list[Site]:
    sites = [
        _softmax(_t(64, 262144, dtype=BF16), 1, families=1),
        _softmax(_t(16, 151936), 1),
        _softmax(_t(64, 262144), 1, families=2),
        _softmax(_t(64, 151936, dtype=BF16), 1, "axes", families=2),
        _softmax(_t(5, 100003, dtype=BF16), 1, families=2),
        _softmax(_t(7, 50257, dtype=BF16), 1),
        _softmax(_t(2048, 2048, dtype=BF16), 1, families=2),
        _softmax(_t(512, 8192), 1, families=2),
        _softmax(_t(64, 32768, dtype=F16), 1, families=2),
        _softmax(_t(1, 1536), 1, families=2),
        _softmax(_t(4, 1024, 64, 32, dtype=BF16), 1),
        _softmax(_t(8, 21, 128, 128), 1, log=True),
        _softmax(_t(2, 16, 256, 256, dtype=BF16), 1, "axes", families=2),
        _softmax(_t(2, 16, 256, 256), 1, families=2),
        _softmax(_t(16384, 64), 0),
        _layer_norm(_t(2001, 1536, dtype=BF16), families=2),
        _layer_norm(_t(512, 4096), families=1),
        _layer_norm(_t(8666, 1536, dtype=BF16), "axes", families=3),
        _layer_norm(_t(4099, 768), families=3),
        _rms_norm(_t(2048, 4096), "axes", families=2),
        _layer_norm(_t(16, 262144)),
        _layer_norm(_t(16, 100003, dtype=BF16), families=2),
        _rms_norm(_t(16, 65536), "axes", families=2),
        _rms_norm(_t(2001, 1536, dtype=BF16), families=2),
        _rms_norm(_t(64, 32768, dtype=F16), families=2),
        _group_norm(_t(1, 128, 256, 256, dtype=BF16), 32),
        _group_norm(_t(2, 512, 64, 64), 32),
        _group_norm(_t(1, 512, 128, 128, dtype=BF16), 32, "axes", families=2),
        _group_norm(_t(2, 512, 128, 128), 32, families=3),
        _group_norm(_t(1, 128, 1024, 1024, dtype=BF16), 32, "axes", families=2),
        _group_norm(_t(1, 128, 512, 512), 32, families=2),
        _group_norm(
            _t(3, 48, 512, 512, dtype=F16), 12, families=2
        ),  # the last turn has fewer groups than teams
        _group_norm(_t(1, 64, 100, 101, dtype=F16), 16),
        _group_norm(_t(1, 64, 80, 101, dtype=F16), 16, families=2),
        _group_norm(_t(64, 320, 8, 8, dtype=BF16), 32, families=2),
    ]
    if "aten::group_norm" in {row["overload"] for row in _ext.load().op_table()}:  # torch before 2.14
        sites += [
            _composite(_last(_t(1, 128, 1024, 1024, dtype=BF16)), 32, "axes"),
            _composite(_last(_t(1, 512, 128, 128, dtype=BF16)), 32, "axes"),
            _composite(_last(_t(2, 320, 64, 64, dtype=F16)), 32),
            _composite(_last(_t(8, 512, 7, 7)), 32),
        ]
    for dtype in (F32, BF16, F16):
        for x in (_t(16, 64, 112, 112, dtype=dtype), _t(8, 2048, 7, 7, dtype=dtype)):
            for y in (x, _last(x)):
                sites += [
                    _batch_norm(y),
                    _max_pool(y),
                    _max_pool(y, overload="max_pool2d"),
                    _adaptive(y, [7, 7]),
                    _adaptive(y, [3, 3]),  # windows that share rows and columns
                    _adaptive(y, [1, 1]),
                ]
                if dtype is F32:
                    sites.append(_batch_norm(y, "cudnn_batch_norm"))
    return sites
