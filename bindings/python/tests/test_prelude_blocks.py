"""The prelude of CUDA candidates, run on the CPU (blocks.py): division by a size, folds and scans of teams, rounding to bfloat16 on old devices."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

import blocks

SOURCE = """
KF_KERNEL(256) void divide(const int32_t* i, int32_t* q, int32_t* r, int32_t size, int64_t magic, int32_t count) {
  const kf_divider<int32_t> by = {size, magic};
  const int32_t at = blockIdx.x * 256 + threadIdx.x;
  if (at < count) {
    int32_t x = i[at];
    r[at] = by.split(x);
    q[at] = x;
  }
}
KF_KERNEL(THREADS) void fold(const float* in, float* out) {
  const float sum = kf_block_fold<THREADS, TEAM>(in[threadIdx.x], kf_sum_of());
  out[threadIdx.x] = kf_block_fold<THREADS, TEAM>(sum, kf_max_of());  // twice in a row: the second must not disturb the first
}
KF_KERNEL(THREADS) void scan(const float* in, float* out, float* total) {
  float all;
  out[threadIdx.x] = kf_block_scan<THREADS, TEAM == 32 ? 32 : THREADS>(in[threadIdx.x], 0.0f, kf_sum_of(), all);
  total[threadIdx.x] = all;
}
KF_KERNEL(256) void round_to(const float* in, uint16_t* out, int32_t count) {
  const int32_t at = blockIdx.x * 256 + threadIdx.x;
  if (at < count) out[at] = kf_to<kf_bf16>(in[at]).bits;
}
KF_KERNEL(256) void canonical(const uint32_t* in, uint32_t* out, uint32_t* other, int32_t count) {
  const int32_t at = blockIdx.x * 256 + threadIdx.x;
  if (at >= count) return;
  out[at] = kf_canonical(in[at], (kf_bf16*)nullptr);
  other[at] = kf_canonical(in[at], (kf_f16*)nullptr);
}
"""


# Blocks that wait for each other: through words of a workspace, and as a cluster through shared memory. Each block's shared memory is its own.
TOGETHER = """
extern __shared__ int32_t room[];
KF_KERNEL(64) void words(uint32_t* words, int32_t* parts, int32_t* out, int32_t wanted) {
  __shared__ int32_t mine;
  if (threadIdx.x == 0) mine = room[0] = int32_t(blockIdx.x) + 1;
  __syncthreads();
  if (threadIdx.x == 63) {
    parts[blockIdx.x] = mine * room[0];
    kf_post(words + blockIdx.x, 1);
  }
  int32_t sum = 0;
  if (threadIdx.x < wanted) {
    while (kf_seen(words + threadIdx.x) == 0) {}
    sum = parts[threadIdx.x];
  }
  sum = kf_block_fold<64>(sum, kf_sum_of());
  if (threadIdx.x == 0) out[blockIdx.x] = sum + 1000 * mine;
}
KF_KERNEL(64) void cluster(int32_t* out) {
  __shared__ int32_t inbox[4];
  __cluster_barrier_arrive_relaxed();
  const int rank = blockIdx.x % 4;
  room[threadIdx.x] = 10 * int32_t(blockIdx.x);
  __cluster_barrier_wait();
  if (threadIdx.x < 4) *(int32_t*)__cluster_map_shared_rank(&inbox[rank], threadIdx.x) = room[threadIdx.x] + threadIdx.x;
  if (LATE == 0 || blockIdx.x != 5) __cluster_barrier_arrive();
  __cluster_barrier_wait();
  if (threadIdx.x == 0) out[blockIdx.x] = ((inbox[0] * 100 + inbox[1]) * 100 + inbox[2]) * 100 + inbox[3];
}
KF_KERNEL(64) void ahead(int32_t* out, const int32_t* in) {
  if (threadIdx.x >= 8) return;
  uint4* const mine = (uint4*)room + 2 * threadIdx.x;
  for (int i = 0; i < 2; ++i) {
    kf_copy_ahead(mine + i, (const uint4*)in + 2 * threadIdx.x + i);
    kf_end_group();
  }
  out += 4 * threadIdx.x;
  out[0] = mine[0].y;
  kf_wait_groups<1>();
  out[1] = mine[0].y;
  out[2] = mine[1].y;
  kf_wait_groups<0>();
  out[3] = mine[1].y;
}
"""


def _together(entry: str, grid: int, options: dict[str, Any], late: int, *args: Any) -> None:
    """Run an entry of TOGETHER, forwards and backwards. args: tensors, or an expression."""
    spec: dict[str, Any] = {
        "constants": {"LATE": str(late)},
        "kernels": [{"entry": "words"}, {"entry": "cluster"}, {"entry": "ahead"}],
    }
    candidate: dict[str, Any] = {"family": "together", "source": TOGETHER, "spec": spec}
    objects = blocks.compile_all([candidate], soiled=True)
    slots = {f"ws{i}": a.data_ptr() for i, a in enumerate(args) if isinstance(a, torch.Tensor)}
    given = [
        {"slot": f"ws{i}"} if isinstance(a, torch.Tensor) else {"int": a, "type": "i32"}
        for i, a in enumerate(args)
    ]
    launch: dict[str, Any] = {
        "entry": entry,
        "grid": [str(grid), "1", "1"],
        "block": ["64", "1", "1"],
        "smem": "256",
    }
    ran = candidate | {"spec": spec | {"kernels": [launch | options | {"args": given}]}}
    for pieces in (1, 2):
        for a in args[:1]:
            a.zero_()
        blocks.Prepared(ran, objects, {"args": [], "outputs": []}, slots).run(pieces)


def _ints(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


def test_blocks_of_a_cooperative_launch_wait_for_each_other() -> None:
    words, parts, out = _ints(6), _ints(6), _ints(6)
    _together("words", 6, {"cooperative": True}, 0, words, parts, out, "6")
    assert out.tolist() == [1 + 4 + 9 + 16 + 25 + 36 + 1000 * (k + 1) for k in range(6)]


def test_a_word_that_never_comes_and_a_launch_that_does_not_fit_are_errors() -> None:
    with pytest.raises(AssertionError, match="wait for others"):
        _together("words", 4, {"cooperative": True}, 0, _ints(8), _ints(8), _ints(8), "5")
    with pytest.raises(AssertionError, match="the device holds 6"):
        _together("words", 7, {"cooperative": True}, 0, _ints(8), _ints(8), _ints(8), "7")


def test_blocks_of_a_cluster_write_each_others_shared_memory() -> None:
    out = _ints(8)
    _together("cluster", 8, {"cluster": ["4", "1", "1"]}, 0, out)
    first = [int("".join(f"{10 * b + k:02}" for b in range(4))) for k in range(4)]
    second = [sum((10 * b + k) * 100 ** (7 - b) for b in range(4, 8)) for k in range(4)]
    assert out.tolist() == first + second


def test_a_block_that_does_not_come_to_the_barrier_of_its_cluster_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"block [4-7]: threads wait for others"):
        _together("cluster", 8, {"cluster": ["4", "1", "1"]}, 1, _ints(8))


def test_what_is_copied_ahead_is_not_there_before_the_thread_has_waited_for_it() -> None:
    out, given = _ints(32), torch.arange(64, dtype=torch.int32)
    _together("ahead", 1, {}, 0, out, given)
    expected = [[-1, 8 * t + 1, -1, 8 * t + 5] for t in range(8)]
    assert out.view(8, 4).tolist() == expected


def _run(entry: str, count: int, constants: dict[str, str], *args: Any, arch: int = 900) -> None:
    kernels = [{"entry": e} for e in ("divide", "fold", "scan", "round_to", "canonical")]
    candidate = {"family": "prelude", "source": SOURCE, "spec": {"constants": constants, "kernels": kernels}}
    (library,) = blocks.compile_all([candidate], arch).values()
    values = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in args]
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    threads = int(constants["THREADS"]) if entry in ("fold", "scan") else 256
    grid, block = (ctypes.c_int64 * 3)(-(-count // threads), 1, 1), (ctypes.c_int64 * 5)(threads, 1, 1, 1, 0)
    run = getattr(library, f"run_{entry}_{blocks._binary(candidate)}")
    run.argtypes, run.restype = [*[ctypes.c_void_p] * 3, ctypes.c_bool], ctypes.c_int64
    for backwards in (False, True):
        assert run(grid, block, pointers, backwards) == 0


TEAMS = [(128, 4), (256, 16), (256, 32), (128, 64), (256, 256), (1024, 512), (1024, 1024)]


def _constants(threads: int = 256, team: int = 32) -> dict[str, str]:
    return {"THREADS": str(threads), "TEAM": str(team)}


def test_division_is_exact_to_the_last_index() -> None:
    most = 2**31 - 1
    chance = torch.Generator().manual_seed(0)
    sizes = [1, 2, 3, 5, 7, 641, 65535, 65536, 65537, 6700417, 2**30, 2**30 + 1, most - 1, most]
    sizes += torch.randint(1, most, (40,), generator=chance).tolist()
    for size in sizes:
        multiples = torch.arange(0, most, max(size, most // 500))
        i = torch.cat(
            [multiples, multiples - 1, torch.randint(0, most, (500,), generator=chance), torch.tensor([most])]
        )
        i = i.clamp(0, most).to(torch.int32)
        q, r = torch.empty_like(i), torch.empty_like(i)
        magic = -(-(2**62) // size)
        _run(
            "divide",
            len(i),
            _constants(),
            i,
            q,
            r,
            ctypes.c_int32(size),
            ctypes.c_int64(magic),
            ctypes.c_int32(len(i)),
        )
        assert torch.equal(q.long(), i.long() // size), size
        assert torch.equal(r.long(), i.long() % size), size


@pytest.mark.parametrize(("threads", "team"), TEAMS)
def test_folds_give_every_thread_its_teams_result(threads: int, team: int) -> None:
    x = torch.randint(-1000, 1000, (threads,), generator=torch.Generator().manual_seed(team)).float()
    out = torch.empty_like(x)
    _run("fold", threads, _constants(threads, team), x, out)
    assert torch.equal(out, x.view(-1, team).sum(1, keepdim=True).expand(-1, team).reshape(-1))


@pytest.mark.parametrize(("threads", "team"), [t for t in TEAMS if t[1] == 32 or t[0] == t[1]])
def test_scans_give_what_lies_below(threads: int, team: int) -> None:
    x = torch.randint(-1000, 1000, (threads,), generator=torch.Generator().manual_seed(team)).float()
    out, total = torch.empty_like(x), torch.empty_like(x)
    _run("scan", threads, _constants(threads, team), x, out, total)
    rows = x.view(-1, team)
    assert torch.equal(out, (rows.cumsum(1) - rows).reshape(-1))
    assert torch.equal(total, rows.sum(1, keepdim=True).expand(-1, team).reshape(-1))


def test_bfloat16_is_rounded_as_torch_does_without_the_instruction() -> None:
    steps = torch.arange(0, 2**32, 65521).to(torch.uint32).view(torch.float32)
    ties = (torch.arange(0, 2**16) * 2**16 + 2**15).to(torch.uint32).view(torch.float32)
    x = torch.cat([steps, ties])
    out = torch.empty(len(x), dtype=torch.int16)
    _run("round_to", len(x), _constants(), x, out, ctypes.c_int32(len(x)), arch=750)
    got, expected = out.view(torch.bfloat16), x.to(torch.bfloat16)
    assert torch.equal(got.isnan(), x.isnan())
    known = ~x.isnan()
    assert torch.equal(got[known].view(torch.int16), expected[known].view(torch.int16))


@pytest.mark.parametrize("arch", [750, 900])
def test_halves_have_one_nan_and_one_zero_when_made_canonical(arch: int) -> None:
    """With the instruction and without it: every element in either half of a pair."""
    every = torch.arange(0, 2**16)
    pairs = (every | every.flip(0) << 16).to(torch.uint32)
    found = torch.empty(2**16, dtype=torch.int32), torch.empty(2**16, dtype=torch.int32)
    _run("canonical", 2**16, _constants(), pairs, *found, ctypes.c_int32(2**16), arch=arch)
    for bits, dtype in zip(found, (torch.bfloat16, torch.float16), strict=True):
        x = pairs.view(dtype)
        expected = torch.where(x == 0, 0, x.view(torch.int16)).masked_fill(x.isnan(), 0x7FFF)
        assert torch.equal(bits.view(torch.int16), expected.to(torch.int16)), dtype
