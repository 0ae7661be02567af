"""What is known of a GPU and its compiler without torch: telemetry from a library made of nothing, NVRTC, names, the doctor without a GPU."""

import json
import subprocess
import sys

import pytest

from kernelforge import _doctor_cuda, _needs, _nvml, _nvrtc, _place
from kernelforge._place import Place
from kernelforge.errors import EnvironmentFault

torch = pytest.importorskip("torch")


FAKE_NVML = r"""
#include <cstring>
extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** d) { *d = (void*)0x5; return std::strcmp(pci, "0000:19:00.0") ? 6 : 0; }
int nvmlDeviceGetPowerUsage(void* d, unsigned* mw) { *mw = d == (void*)0x5 ? 345600 : 0; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* r) { *r = 0x24; return 0; }
int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) { *mhz = type == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetTemperature(void*, int, unsigned* c) { return 3; }
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* m) { m[0] = 150; m[1] = 100; m[2] = 50; return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned n) { std::strncpy(text, "580.95.05", n); return 0; }
}
"""


@pytest.fixture
def fake_nvml(tmp_path, monkeypatch):
    library = tmp_path / "libfake-nvml.so"
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=FAKE_NVML, text=True, check=True)
    monkeypatch.setattr(_nvml, "LIBRARY", str(library))


def test_telemetry_is_read_from_the_drivers_library(fake_nvml):
    assert _nvml.read("0000:19:00.0") == {
        "clocks_sm_mhz": 1980,
        "clocks_mem_mhz": 3201,
        "throttle": ["sw_power_cap", "sw_thermal_slowdown"],
        "power_w": 345.6,
        "temperature_c": None,
        "memory_used_bytes": 50,
    }
    clocks = _nvml.clocks("0000:19:00.0")
    assert clocks is not None
    assert clocks() == {"clocks_sm_mhz": 1980, "throttle": ["sw_power_cap", "sw_thermal_slowdown"]}
    assert _nvml.clocks("0000:20:00.0") is None
    assert "no GPU at `0000:20:00.0`" in _nvml.read("0000:20:00.0")["why"]
    assert _nvml.driver_version() == "580.95.05"


def test_without_the_library_there_is_a_reason_and_no_error(monkeypatch, tmp_path):
    monkeypatch.setattr(_nvml, "LIBRARY", "libno-such-nvml.so.1")
    monkeypatch.setattr(_nvml, "_VERSION_FILE", tmp_path / "none")
    assert "libno-such-nvml.so.1" in _nvml.read("0000:19:00.0")["why"]
    assert _nvml.driver_version() is None


def test_nvrtc_of_the_user_goes_first_and_one_that_is_none_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELFORGE_NVRTC", str(tmp_path / "libnvrtc.so"))
    assert _nvrtc.find() == tmp_path / "libnvrtc.so"
    assert _nvrtc.toolchain() == ""
    found, hint = _nvrtc.missing()
    assert "is no NVRTC that can be loaded" in found
    assert "KERNELFORGE_NVRTC" in hint


def test_nvrtc_of_the_torch_environment_tells_its_version():
    if torch.version.cuda is None:
        pytest.skip("this torch is built without CUDA")
    assert "builtins" not in _nvrtc.find().name
    assert _nvrtc.toolchain() == f"nvrtc {torch.version.cuda}"


def test_a_gpu_has_a_name_that_all_processes_share(monkeypatch):
    monkeypatch.setattr(Place, "info", lambda place: {"uuid": "0123456789abcdef0123456789abcdef"})
    assert Place(0).uuid() == "GPU-01234567-89ab-cdef-0123-456789abcdef"


def test_the_doctor_of_a_machine_without_a_gpu_has_one_note_and_misses_nothing(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = [c for check in _doctor_cuda.CHECKS if (c := check()) is not None]
    assert [(c.name, c.ok) for c in found] == [("gpu", None)]
    assert "host target (CPU) works without" in found[0].found


def test_ncu_is_the_users_then_the_machines_or_not_wanted(monkeypatch, tmp_path):
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    monkeypatch.delenv("KERNELFORGE_NCU", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert _needs.ncu() == str(program)
    monkeypatch.setenv("KERNELFORGE_NCU", "off")
    assert _needs.ncu() == _needs.NO_COUNTERS == "off"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("KERNELFORGE_NCU", str(program))
    assert _needs.ncu() == str(program)
    monkeypatch.setenv("KERNELFORGE_NCU", str(tmp_path / "ncu"))
    with pytest.raises(EnvironmentFault, match="which is no program"):
        _needs.ncu()


def test_the_settings_of_a_device_name_the_tools_that_are_there(monkeypatch):
    monkeypatch.setattr(Place, "uuid", lambda place: "GPU-0")
    monkeypatch.setattr(_needs, "sanitizer", lambda: None)
    monkeypatch.setattr(_needs, "ncu", lambda: None)
    assert not {"sanitizer", "ncu"} & _needs.tools(Place(0), "nvrtc").keys()
    monkeypatch.setattr(_needs, "ncu", lambda: "off")
    assert _needs.tools(Place(0), "nvrtc")["ncu"] == "off"


def test_places_import_no_torch():
    code = "import sys; from kernelforge import _place, _nvml, _nvrtc, _device_time, _needs; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.strip().lower()) is False
    assert _place.place_of("cuda:2") == Place(2)
