"""The strings that tokenizers are compared on: tests/unit/tokenizer/tok_corpus.h makes the same ones in C++.

Every string is a function of its number, by integer arithmetic alone.
"""

MASK = (1 << 64) - 1

# First and last code point of what words are drawn from.
SCRIPTS = [
    (0x61, 0x7A), (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F), (0x180, 0x24F), (0x370, 0x3FF), (0x400, 0x45F), (0x531, 0x587),
    (0x5D0, 0x5EA), (0x620, 0x65F), (0x900, 0x97F), (0x980, 0x9FE), (0xA01, 0xA76), (0xB82, 0xBFA), (0xE01, 0xE5B),
    (0xE81, 0xEDF), (0xF00, 0xFDA), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137C), (0x13A0, 0x13FD),
    (0x1780, 0x17F9), (0x1800, 0x18AA), (0x1E00, 0x1EFF), (0x1F00, 0x1FFE), (0x2C00, 0x2C5F), (0x3041, 0x30FF),
    (0x3100, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x4E00, 0x6FFF), (0xA000, 0xA48C), (0xA720, 0xA7FF),
    (0xAC00, 0xD7A3), (0xAC00, 0xD7A3), (0xF900, 0xFAD9), (0xFB00, 0xFB4F), (0xFE70, 0xFEFC), (0xFF00, 0xFFEF),
    (0x10330, 0x1034A), (0x10400, 0x1044F), (0x10D40, 0x10D8F), (0x11900, 0x11959), (0x11F00, 0x11F59), (0x12000, 0x12399),
    (0x1D400, 0x1D7FF), (0x1E900, 0x1E95F), (0x20000, 0x2A6DF), (0x2EBF0, 0x2EE5D), (0x30000, 0x3134A),
]
MARKS = [(0x300, 0x36F), (0x483, 0x487), (0x591, 0x5BD), (0x64B, 0x65F), (0x93C, 0x94D), (0xE34, 0xE3A), (0x1AB0, 0x1ACE),
         (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x302A, 0x302F), (0x3099, 0x309A), (0xFE20, 0xFE2F), (0x1D165, 0x1D169)]
NUMBERS = [(0x30, 0x39), (0x30, 0x39), (0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0xB2, 0xB3), (0xBC, 0xBE),
           (0x2150, 0x218B), (0x2460, 0x249B), (0x3021, 0x3029), (0xFF10, 0xFF19), (0x1D7CE, 0x1D7FF), (0x11DE0, 0x11DE9)]
SPACES = [0x20, 0x20, 0x20, 0x20, 0x0A, 0x0A, 0x09, 0x0D, 0x0B, 0x0C, 0x85, 0xA0, 0x1680, 0x180E, 0x2003, 0x2009, 0x200B, 0x2028,
          0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF, 0x2581]
SYMBOLS = [(0x21, 0x2F), (0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E), (0xA1, 0xBF), (0x2010, 0x2027), (0x2030, 0x205E),
           (0x20A0, 0x20C0), (0x2100, 0x214F), (0x2190, 0x23FF), (0x2500, 0x27BF), (0x3001, 0x3020), (0xFF01, 0xFF0F)]
EMOJI = [(0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1F9FF), (0x2600, 0x26FF), (0x1FA70, 0x1FAFF)]
SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "[UNK]",
    "<tool_call>", "</think>", "<|endoftext", "<|im_", "<0x0A>", "<|extra|>", "newword", "Yesterday", "##ing", "<|begin_of_text|>",
    "\u2581", "</w>", "ADDED", "\u00e9t\u00e9",
]
CODE = [
    "def f(x):\n    return x * 2\n", "int main() { return 0; }\r\n", "for (i=0; i<10; ++i)\t{\n", "SELECT * FROM t WHERE a='b';",
    "<div class=\"x\">&amp;</div>", "https://example.org/a?b=c&d=%20e#f", "user@example.com", "C:\\Users\\x\\y.txt", "{\"k\": [1, 2.5e-3, null]}",
    "I'm we'll you've they'd it's don't we're", "I'M WE'LL YOU'VE THEY'D IT'S DON'T WE'RE", "it'\u017F and '\u017Fx", "e\u0301 \u00e9 A\u030A \u1e9b\u0323",
    "1234567890 3.14159 1,000,000", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "$x^2 + y_1 \\le \\frac{1}{2}$", "   indented\n\n\n  more", "  trailing   ",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "fi\ufb01 \u2460 \u33a0 \uff21\uff22", "don't do not 's n't ,", " . ? ! ,", "\u0130stanbul \u1e9e \u03a3\u03c2",
]
ZWJ = ["\u200d", "\ufe0f", "\U0001f3fd", "\u20e3", "\U000e0067"]


class Lcg:
    def __init__(self, seed):
        self.state = (seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & MASK
        self.pick(2)

    def pick(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.state >> 33) % n

    def char(self, ranges):
        low, high = ranges[self.pick(len(ranges))]
        c = low + self.pick(high - low + 1)
        return chr(c).encode()


def piece(r):
    kind = r.pick(24)
    if kind < 7:  # a word of one script
        low, high = SCRIPTS[r.pick(len(SCRIPTS))]
        return b"".join(chr(low + r.pick(high - low + 1)).encode() for _ in range(1 + r.pick(9)))
    if kind < 10:  # plain words
        return b"".join(chr(0x61 + r.pick(26)).encode() for _ in range(1 + r.pick(8))) + b" "
    if kind == 10:
        return b"".join(r.char(NUMBERS) for _ in range(1 + r.pick(6)))
    if kind < 13:
        return b"".join(chr(SPACES[r.pick(len(SPACES))]).encode() for _ in range(1 + r.pick(4)))
    if kind < 15:
        return b"".join(r.char(SYMBOLS) for _ in range(1 + r.pick(4)))
    if kind == 15:  # emoji with joiners, selectors and tones
        return b"".join(r.char(EMOJI) + (ZWJ[r.pick(len(ZWJ))].encode() if r.pick(2) else b"") for _ in range(1 + r.pick(4)))
    if kind == 16:  # a base under marks
        return r.char(SCRIPTS) + b"".join(r.char(MARKS) for _ in range(1 + r.pick(4)))
    if kind == 17:
        return SPECIAL[r.pick(len(SPECIAL))].encode()
    if kind == 18:
        return (b" " * r.pick(3)) + SPECIAL[r.pick(len(SPECIAL))].encode() + (b" " * r.pick(3))
    if kind < 21:
        return CODE[r.pick(len(CODE))].encode()
    if kind == 21:  # controls
        return bytes([r.pick(32)]) + (bytes([0x7F]) if r.pick(2) else b"")
    if kind == 22:  # broken UTF-8
        return bytes(0x80 + r.pick(128) for _ in range(1 + r.pick(5)))
    c = 0x80 + r.pick(0x10FFFF - 0x80)  # anything
    return b"" if 0xD800 <= c <= 0xDFFF else chr(c).encode()


def string(number):
    """The bytes of string `number`; every 97th has a long run, number 0 is empty."""
    if number == 0:
        return b""
    r = Lcg(number)
    out = b"".join(piece(r) for _ in range(1 + r.pick(1 + number % 23)))
    if number % 97 == 0:
        out += piece(r) * (50 + r.pick(400))
    return out


def repaired(text):
    """The bytes with U+FFFD for each byte that is no UTF-8, as llama.cpp and sentencepiece read them."""
    return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in text.decode("utf-8", "surrogateescape")).encode()
