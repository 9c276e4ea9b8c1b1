#!/usr/bin/env python3
"""Write tokenizer/unicode/unicode_tables.cpp: the character properties that Hugging Face's `tokenizers` really uses.

Its parts carry tables of different Unicode versions (Oniguruma and the regex crate a recent one, unicode_categories 8,
unicode-normalization-alignments 9, Rust's std the compiler's), so each property is asked of the library itself, for every
code point. Needs tokenizers 0.23 and libutf8proc.so.2 (whose decompositions are used where both agree).

Usage: unicode_tables.py OUTPUT.cpp
"""
import ctypes
import sys
import unicodedata

from tokenizers import Regex
from tokenizers import __version__ as version
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

CPS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
proc = ctypes.CDLL("libutf8proc.so.2")


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_int16), ("ccc", ctypes.c_int16), ("rest", ctypes.c_int16 * 12)]


proc.utf8proc_get_property.restype = ctypes.POINTER(Property)


def chunks(size=4096):
    for i in range(0, len(CPS), size):
        yield CPS[i : i + size]


def removed_by(pre_tokenizer):
    out = set()
    for chunk in chunks():
        kept = set()
        for piece, _ in pre_tokenizer.pre_tokenize_str("".join(map(chr, chunk))):
            kept.update(map(ord, piece))
        out.update(c for c in chunk if c not in kept)
    return out


def regex(pattern):
    return removed_by(P.Split(Regex(pattern), "removed"))


def vanishes(normalizer):
    return {c for c in CPS if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}


def regex_word():
    out = set()
    for chunk in chunks():
        for piece, _ in P.Whitespace().pre_tokenize_str("\n".join("a" + chr(c) for c in chunk if c != 10)):
            if len(piece) == 2 and piece[0] == "a":
                out.add(ord(piece[1]))
    return out


def isolated(pre_tokenizer):
    out = set()
    for chunk in chunks():
        for piece, _ in pre_tokenizer.pre_tokenize_str("".join("a" + chr(c) for c in chunk)):
            if len(piece) == 1 and piece != "a":
                out.add(ord(piece))
    return out


def bert(**on):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return N.BertNormalizer(**{**options, **on})


def proc_nfkd(c, compat):
    buffer = (ctypes.c_int32 * 64)()
    options = (1 << 4) | (1 << 1) | ((1 << 2) if compat else 0)  # DECOMPOSE | STABLE | COMPAT
    last = ctypes.c_int(0)
    n = proc.utf8proc_decompose_char(c, buffer, 64, options, ctypes.byref(last))
    return "".join(map(chr, buffer[:n]))


def normalization_unknown():
    """Code points that utf8proc decomposes or gives a combining class, and the library's older tables do not."""
    nfd, nfkd, out = N.NFD(), N.NFKD(), set()
    for c in CPS:
        if proc_nfkd(c, True) != chr(c) and nfkd.normalize_str(chr(c)) == chr(c):
            out.add(c)
        elif 0 < proc.utf8proc_get_property(c).contents.ccc < 240 and nfd.normalize_str("a\u0345" + chr(c)) == "a\u0345" + chr(c):
            out.add(c)
        else:
            assert proc_nfkd(c, True) == nfkd.normalize_str(chr(c)) or 0xAC00 <= c < 0xD7A4, hex(c)
            assert proc_nfkd(c, False) == nfd.normalize_str(chr(c)) or 0xAC00 <= c < 0xD7A4, hex(c)
    return out


def nfc_attention(unknown):
    """NFC quick check not "yes", or a combining class: text without these is its own NFC."""
    nfc, out = N.NFC(), set()
    followers = set()
    for c in CPS:  # second characters of a primary composite
        d = unicodedata.normalize("NFD", chr(c))
        if len(d) > 1 and nfc.normalize_str(d) == chr(c):
            followers.update(map(ord, d[1:]))
    followers.update(range(0x1161, 0x1176))
    followers.update(range(0x11A8, 0x11C3))
    for c in CPS:
        known_ccc = c not in unknown and proc.utf8proc_get_property(c).contents.ccc != 0
        if known_ccc or c in followers or nfc.normalize_str(chr(c)) != chr(c):
            out.add(c)
    return out


def lower_exceptions():
    low, out = N.Lowercase(), []
    proc.utf8proc_tolower.restype = ctypes.c_int32
    for c in CPS:
        got = low.normalize_str(chr(c))
        if got != chr(proc.utf8proc_tolower(c)):
            assert len(got) == 1 or c == 0x130, hex(c)
            if c != 0x130:
                out.append((c, ord(got)))
    return out


def shadows():
    """Code points whose category PCRE2's tables (Unicode 14, as Python 3.11's) lack: one of the same category and UTF-8 length."""
    names = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
    of = {}
    for name in names:
        for c in regex(r"\p{%s}" % name):
            of[c] = name
    assert unicodedata.unidata_version == "14.0.0"
    length = lambda c: len(chr(c).encode())
    targets, out = {}, []
    for c in CPS:
        key = (unicodedata.category(chr(c)), length(c))
        if of.get(c, "Cn") == key[0] and c != 0x180E:
            targets.setdefault(key, c)
    han = regex(r"\p{Han}")
    python_han = lambda c: "CJK" in unicodedata.name(chr(c), "")
    for c in CPS:
        name = of.get(c, "Cn")
        if name != unicodedata.category(chr(c)):
            out.append((c, 0x20000 if c in han and name == "Lo" else targets[(name, length(c))]))
    out.append((0x180E, 0x2060))  # PCRE2's \s still holds the Mongolian vowel separator
    return sorted(out)


def ranges(pairs):
    out = []
    for c, target in pairs:
        if out and out[-1][1] == c - 1 and out[-1][2] == target:
            out[-1][1] = c
        else:
            out.append([c, c, target])
    return out


def deltas(pairs):
    out = []
    for c, target in pairs:
        if out and out[-1][1] == c - 1 and target - c == out[-1][2]:
            out[-1][1] = c
        else:
            out.append([c, c, target - c])
    return out


def main():
    unknown = normalization_unknown()
    properties = [  # in the order of enum CharFlag
        regex(r"\p{L}"), regex(r"\p{N}"), removed_by(P.WhitespaceSplit()), regex_word(),
        removed_by(P.Punctuation("removed")), isolated(P.Digits(individual_digits=True)),
        vanishes(bert(clean_text=True)), vanishes(bert(strip_accents=True)), vanishes(N.StripAccents()),
        regex(r"\p{M}"), unknown, nfc_attention(unknown), regex(r"[\p{Lu}\p{Lt}]"), regex(r"\p{Ll}"),
        regex(r"\p{P}"), regex(r"\p{S}"),
    ]
    mask = [0] * 0x110000
    for bit, members in enumerate(properties):
        for c in members:
            mask[c] |= 1 << bit
    classes = sorted(set(mask))
    index = {m: i for i, m in enumerate(classes)}
    runs, last = [], None
    for c in range(0x110000):
        if mask[c] != last:
            runs.append((c << 8) | index[mask[c]])
            last = mask[c]
    assert len(classes) < 256
    scripts = script_runs()
    lines = [
        "// Made by script/golden.d/unicode_tables.py from tokenizers " + version + ": do not edit.",
        '#include "tokenizer/unicode/unicode_tables.h"',
        "namespace tern::tokenizer {",
        "// clang-format off",
    ]

    def array(kind, name, values):
        lines.append(f"const {kind} {name}[] = {{")
        row = ""
        for v in values:
            if len(row) + len(v) > 118:
                lines.append(row)
                row = ""
            row += v + ","
        lines.extend([row, "};", f"const std::size_t {name}_size = {len(values)};"])

    array("std::uint16_t", "unicode_classes", [str(m) for m in classes])
    array("std::uint32_t", "unicode_runs", [hex(r) for r in runs])
    array("CharRange", "lower_exceptions", ["{%#x,%#x,%d}" % tuple(r) for r in deltas(lower_exceptions())])
    array("CharRange", "pcre_shadows", ["{%#x,%#x,%#x}" % tuple(r) for r in ranges(shadows())])
    array("std::uint32_t", "script_runs", [hex(r) for r in scripts])
    lines += ["// clang-format on", "}  // namespace tern::tokenizer", ""]
    open(sys.argv[1], "w").write("\n".join(lines))
    print(len(classes), "classes", len(runs), "runs", len(scripts), "script runs")


def script_runs():
    """(first code point << 8 | script): scripts are numbered as they are met; 0 is "any", which never splits."""
    pre = P.UnicodeScripts()

    def splits(a, b):  # a leading break is an artefact of the library: ask with a known left side
        return len(pre.pre_tokenize_str("a" + chr(a) + chr(b))) - len(pre.pre_tokenize_str("a" + chr(a))) > 0

    # A character of no script splits neither from Latin nor from Han.
    neutral = lambda c: not splits(ord("b"), c) and not splits(0x4E00, c)
    representatives, runs, last = [], [], None
    for c in CPS:
        if last and splits_same(pre, last[1], c) and neutral(c) == (last[0] == 0):
            script = last[0]
        elif neutral(c):
            script = 0
        else:
            for i, r in enumerate(representatives):
                if splits_same(pre, r, c):
                    script = i + 1
                    break
            else:
                representatives.append(c)
                script = len(representatives)
        if not runs or (runs[-1] & 0xFF) != script:
            runs.append((c << 8) | script)
        last = (script, c)
    assert len(representatives) < 255
    return runs


def splits_same(pre, a, b):
    return len(pre.pre_tokenize_str("a" + chr(a) + chr(b))) == len(pre.pre_tokenize_str("a" + chr(a)))


if __name__ == "__main__":
    main()
