"""Signatures: the check against RFC 8032 and Go, keys of openssl, and that `trust` lets nothing else in."""

import json
import random
import shutil
import subprocess

import pytest
import torch

import packs
from kernelforge import _core, _pack, _trust, _verify
from kernelforge.errors import KernelForgeError, PackFault, UsageFault
from small_net import command

# RFC 8032, 7.1: public key, message, signature
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize("key, message, signature", VECTORS)
def test_the_vectors_of_the_rfc(key, message, signature):
    key, message, signature = map(bytes.fromhex, (key, message, signature))
    assert _trust.verifies(key, message, signature)
    assert not _trust.verifies(key, message + b"x", signature)
    chance = random.Random(7)
    for _ in range(8):
        bit = chance.randrange(512)
        changed = bytearray(signature)
        changed[bit // 8] ^= 1 << bit % 8
        assert not _trust.verifies(key, message, bytes(changed)), f"bit {bit}"
    changed = bytearray(key)
    changed[3] ^= 1
    assert not _trust.verifies(bytes(changed), message, signature)


def test_forms_that_must_not_verify():
    key, message, signature = (bytes.fromhex(v) for v in VECTORS[1])
    s = int.from_bytes(signature[32:], "little") + _trust._L  # the same scalar, not reduced
    assert not _trust.verifies(key, message, signature[:32] + s.to_bytes(32, "little"))
    assert not _trust.verifies(key, message, signature[:-1])
    assert not _trust.verifies(key[:-1], message, signature)
    assert not _trust.verifies((2**255 - 19).to_bytes(32, "little"), message, signature)  # y is not below p
    assert not _trust.verifies((2).to_bytes(32, "little"), message, signature)  # no point of the curve
    assert not _trust.verifies((1 | 1 << 255).to_bytes(32, "little"), message, signature)  # x = 0, odd


def test_what_go_signs_verifies_here():
    chance = random.Random(1)
    for size in (0, 1, 64, 500):
        message = chance.randbytes(size)
        key = _core.call("key.make")
        made = _core.call("key.sign", key=key["private"], message=message.hex())
        assert made["key"] == key["key"]
        public, signature = bytes.fromhex(key["key"]), bytes.fromhex(made["signature"])
        assert _trust.verifies(public, message, signature)
        assert not _trust.verifies(public, message + b"\0", signature)


def test_keys_are_secret_are_not_overwritten_and_are_read_back(tmp_path):
    private, public = _trust.keygen(tmp_path / "mine.key")
    assert private.stat().st_mode & 0o777 == 0o600
    assert len(_trust.public_key(public)) == 32
    assert _trust.public_key(_trust.public_key(public).hex()) == _trust.public_key(public)
    with pytest.raises(UsageFault, match="a file of this name is there"):
        _trust.keygen(tmp_path / "mine.key")
    for wrong in (private, tmp_path / "nothing", "ab" * 31):
        with pytest.raises(UsageFault, match="trust `"):
            _trust.public_key(wrong)
    with pytest.raises(UsageFault, match="no key is named"):
        _trust.keys_of([])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_keys_of_openssl_fit(tmp_path, clean):
    private, public = tmp_path / "k.pem", tmp_path / "k.pub"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    private.chmod(0o600)
    pack = packs.write(tmp_path / "p")
    _trust.sign(pack, private)
    assert _pack.apply(pack, trust=public) == ["p-relu"]


def test_only_a_pack_that_a_trusted_key_signed_is_applied(tmp_path, clean):
    pack = packs.write(tmp_path / "p")
    private, public = _trust.keygen(tmp_path / "a")
    _, other = _trust.keygen(tmp_path / "b")
    with pytest.raises(PackFault, match="it is not signed") as e:
        _pack.apply(pack, trust=public)
    assert "kernelforge sign" in e.value.hint
    made = _trust.sign(pack, private)
    assert _pack.apply(pack, trust=public) == ["p-relu"]
    assert _pack.apply(pack, trust=[other, made["key"]]) == ["p-relu"]
    with pytest.raises(PackFault, match="not a trusted one"):
        _pack.apply(pack, trust=other)
    with pytest.raises(PackFault, match="not a trusted one"):
        _verify.verify(pack, trust=other)
    _pack.restore()
    file = pack / "signature.json"
    good = json.loads(file.read_text())
    for change, words in (
        ({"signature": "00" * 64}, "its signature is wrong"),
        ({"signature": good["signature"][2:]}, "its signature is wrong"),
        ({"digest": "0" * 64}, "it was changed after it was signed"),
        ({"key": _trust.public_key(other).hex()}, "not a trusted one"),
        ({"algorithm": "none"}, "of a kind that is not known"),
        ({"signature": "zz"}, "is damaged"),
    ):
        file.write_text(json.dumps(good | change))
        with pytest.raises(PackFault, match=words):
            _pack.apply(pack, trust=public)
    file.write_text("[]")
    with pytest.raises(PackFault, match="is damaged"):
        _pack.apply(pack, trust=public)
    assert _pack.applied() == {}
    assert _pack.apply(pack) == ["p-relu"]  # nobody asked


def test_a_pack_that_is_changed_and_sealed_again_needs_a_new_signature(tmp_path, clean):
    pack = packs.write(tmp_path / "p", state="proposed")
    private, public = _trust.keygen(tmp_path / "a")
    _trust.sign(pack, private)
    _pack.approve(pack)
    with pytest.raises(PackFault, match="it was changed after it was signed"):
        _pack.apply(pack, trust=public)
    _trust.sign(pack, private)
    assert _pack.apply(pack, trust=public) == ["p-relu"]


def test_a_key_that_others_may_read_signs_nothing(tmp_path):
    private, _ = _trust.keygen(tmp_path / "a")
    private.chmod(0o640)
    with pytest.raises(UsageFault, match="others may read it") as e:
        _trust.sign(packs.write(tmp_path / "p"), private)
    assert "chmod 600" in e.value.hint


def test_what_is_no_private_key_is_told_without_being_quoted(tmp_path):
    file = tmp_path / "k"
    file.write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    file.chmod(0o600)
    with pytest.raises(KernelForgeError, match="the private key cannot be read") as e:
        _trust.sign(packs.write(tmp_path / "p"), file)
    assert "c2VjcmV0" not in str(e.value)


def test_the_commands(tmp_path):
    pack = packs.write(tmp_path / "p")
    script = tmp_path / "s.py"
    script.write_text("print('ran')\n")
    made = command("keygen", str(tmp_path / "k"), "--json")
    assert made.returncode == 0, made.stderr
    run = ("run", "--strict", "--pack", str(pack), "--trust", json.loads(made.stdout)["public"], str(script))
    refused = command(*run)
    assert refused.returncode == 4
    assert "it is not signed" in refused.stderr
    signed = command("sign", str(pack), "--key", str(tmp_path / "k"))
    assert signed.returncode == 0, signed.stderr
    done = command(*run, env={"OMP_NUM_THREADS": str(torch.get_num_threads())})  # a pin of the pack
    assert done.returncode == 0, done.stderr
