// kv_write. A work-item takes W neighbouring features of one head of one row, of k or of v. Rows of block 0 are
// padding: they are left out.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/codes.clh"

typedef struct {
  long rows, heads, width, blocks, block_size;
  long from[3], to[4], scale[3];
} WriteSizes;

#if CODES
// A work-item takes one head of one row into codes of 8 bits.
kernel void kv_write_codes(INPUT(from), INPUT(slots), OUTPUT(to), OUTPUT(scale), const WriteSizes s) {
  const long unit = get_global_id(0);
  if (unit >= s.rows * s.heads) return;
  const long head = unit % s.heads;
  const long row = unit / s.heads;
  const long slot = AS(int, slots)[row];
  if (slot < s.block_size || slot >= s.blocks * s.block_size) return;
  const long block = slot / s.block_size;
  const long offset = slot % s.block_size;
  const long source = row * s.from[0] + head * s.from[1];
  uintW most = (uintW)0u;  // a NaN's bits are more than infinity's, and those more than any number's
  for (long d = 0; d < s.width; d += W) {
    const floatW x = FETCH(from, source + d * s.from[2], s.from[2], s.width - d);
    most = max(most, as_uintW(x) & 0x7fffffffu);
  }
  uint some[W];
  vstoreW(most, 0, some);
  uint largest = 0;
  for (int i = 0; i < W; ++i) largest = max(largest, some[i]);
  const float its = code_scale(to_T, largest);
  AS_OUT(float, scale)[block * s.scale[0] + offset * s.scale[1] + head * s.scale[2]] = its;
  const long place = block * s.to[0] + offset * s.to[1] + head * s.to[2];
  for (long d = 0; d < s.width; d += W) {
    float x[W];
    vstoreW(FETCH(from, source + d * s.from[2], s.from[2], s.width - d), 0, x);
    for (int i = 0; i < min(s.width - d, (long)W); ++i) {
      AT(to)[place + (d + i) * s.to[3]] = largest >= 0x7f800000u ? 0 : code_of(to_T, x[i], its);
    }
  }
}
#else

kernel void kv_write(INPUT(from), INPUT(slots), OUTPUT(to), const WriteSizes s) {
  const long chunks = (s.width + W - 1) / W;
  const long unit = get_global_id(0);
  if (unit >= s.rows * s.heads * chunks) return;
  const long feature = unit % chunks * W;
  const long head = unit / chunks % s.heads;
  const long row = unit / chunks / s.heads;
  const long slot = AS(int, slots)[row];
  if (slot < s.block_size || slot >= s.blocks * s.block_size) return;
  const long source = row * s.from[0] + head * s.from[1] + feature * s.from[2];
  const long place = slot / s.block_size * s.to[0] + slot % s.block_size * s.to[1] + head * s.to[2] + feature * s.to[3];
  const long left = s.width - feature;
#if COPIED_BYTES == 0
  SPREAD(to, place, s.to[3], left, FETCH(from, source, s.from[2], left));
#else
  for (int i = 0; i < min(left, (long)W); ++i) {
    for (int byte = 0; byte < COPIED_BYTES; ++byte) {
      AT(to)[(place + i * s.to[3]) * COPIED_BYTES + byte] = AT(from)[(source + i * s.from[2]) * COPIED_BYTES + byte];
    }
  }
#endif
}
#endif
