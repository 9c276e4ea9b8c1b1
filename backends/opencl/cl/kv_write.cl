// kv_write. A work-item takes W neighbouring features of one head of one row, of k or of v. Rows of block 0 are
// padding: they are left out.
#include "backends/opencl/cl/vectors.clh"

typedef struct {
  long rows, heads, width, blocks, block_size;
  long from[3], to[4];
} WriteSizes;

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
