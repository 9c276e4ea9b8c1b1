// Quantised weights made fp32 again, by views of their bytes and elementary calls: every chip can.
#pragma once

#include "backends/npu/kernel.h"

namespace tern::npu {

// Rows [from, from + count) of the quantised argument `arg`, a [rows, columns] weight, as dense fp32: each element
// rounded once. Refuses what it can't expand.
[[nodiscard]] View expand_rows(Composer& c, int arg, std::int64_t from, std::int64_t count);
// Rows at a time, so that the expanded ones take no more than some tens of MB. Of packings whose words run across rows
// all at once.
[[nodiscard]] std::int64_t panel_rows(const Composer& c, int arg);

// The pieces of the above: blocks of GGUF, and planes of codes, scales and zero points.
[[nodiscard]] bool is_block(tern_packing packing);
[[nodiscard]] View expand_blocks(Composer& c, int arg, std::int64_t from, std::int64_t count);
[[nodiscard]] View expand_planes(Composer& c, int arg, std::int64_t from, std::int64_t count);

// out = `count` bits of each byte from bit `shift` on, as fp32; `bytes` u8 of out's shape, which may be a view.
void extract_bits(Composer& c, const View& bytes, int shift, int count, const View& out);
// out = table[code] for codes that are whole numbers in fp32; tables are constants named by `key`.
void look_up(Composer& c, const View& codes, const char* key, const std::vector<float>& table, const View& out);

}  // namespace tern::npu
