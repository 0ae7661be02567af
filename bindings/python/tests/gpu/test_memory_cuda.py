"""How much memory a device has for this process."""

import torch

from kernelforge._place import place_of


def test_free_memory_is_no_more_than_torch_may_take_here():
    place, whole = place_of("cuda"), torch.cuda.mem_get_info()[1]
    before = torch.cuda.get_per_process_memory_fraction()
    place.trim()
    free = place.free_bytes()
    try:
        torch.cuda.set_per_process_memory_fraction(0.125)
        assert 0 < place.free_bytes() <= min(free, whole // 8)
        held = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
        assert place.free_bytes() <= whole // 8 - held.nbytes
    finally:
        torch.cuda.set_per_process_memory_fraction(before)
