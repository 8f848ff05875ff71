"""HSalsa20 of zeros, which NaCl's box applies to a secret to make a key.

libsodium has it, and PyNaCl brings libsodium without offering it. So the function is looked up in
PyNaCl's own library; if that does not export it, Salsa20 takes its place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib.util import find_spec
from struct import Struct
from typing import TypeAlias

from Crypto.Cipher import Salsa20

KEY_BYTES = 32

WORDS = Struct("<16I")
KEY = Struct("<8I")
SIGMA = Struct("<4I").unpack(b"expand 32-byte k")
ZEROS = bytes(16)

Hash: TypeAlias = Callable[[bytes], bytes]


def by_salsa20(secret: bytes) -> bytes:
    """HSalsa20 of zeros by Salsa20's first block, which adds constants and zeros at the end;
    subtracting them gives it. It takes 8 us."""
    words = WORDS.unpack(Salsa20.new(secret, nonce=bytes(8)).encrypt(bytes(64)))
    corners = zip((words[0], words[5], words[10], words[15]), SIGMA, strict=True)
    return KEY.pack(*((word - sigma) & 0xFFFFFFFF for word, sigma in corners), *words[6:10])


def by_libsodium(library: str) -> Hash:
    """The function of a library, which takes 1 us; OSError or AttributeError if it has none."""
    core = ctypes.CDLL(library).crypto_core_hsalsa20
    core.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p]
    core.restype = ctypes.c_int

    def hsalsa20(secret: bytes) -> bytes:
        if len(secret) != KEY_BYTES:  # C would read on
            raise ValueError(f"a secret has {KEY_BYTES} bytes")
        # A new buffer for each call, so that no key stays in one that is kept.
        key = ctypes.create_string_buffer(KEY_BYTES)
        core(key, ZEROS, secret, None)
        return key.raw

    return hsalsa20


def fastest() -> Hash:
    """libsodium's function, if PyNaCl's library exports it; otherwise Salsa20's."""
    extension = find_spec("nacl._sodium")
    if extension is None or extension.origin is None:
        return by_salsa20
    try:
        return by_libsodium(extension.origin)
    except (OSError, AttributeError):
        return by_salsa20


hsalsa20 = fastest()
"""The key of a secret of 32 bytes."""
