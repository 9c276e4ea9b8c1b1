typedef struct {
  long rows;
  long width;
  long chunk;  // features of a work-item, a multiple of 4
  long chunks;
  long x[2];
  long mask[2];
  long y[2];
  long key;
} Shape;

#if ON_CPU && !HAS_mask
// philox of 16 neighbouring counters at once, in the vectors of a processor: bits[4 i + word] of counter i.
static inline void bits_of_16(uint first, uint site, uint2 key, uint* bits) {
  uint16 x = first + (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  uint16 y = (uint16)site;
  uint16 z = (uint16)0u;
  uint16 w = (uint16)0u;
  for (int round = 0; round < 10; ++round) {
    const ulong16 of_x = convert_ulong16(x) * 0xD2511F53ul;
    const ulong16 of_z = convert_ulong16(z) * 0xCD9E8D57ul;
    const uint16 next = convert_uint16(of_z >> 32) ^ y ^ key.x;
    z = convert_uint16(of_x >> 32) ^ w ^ key.y;
    y = convert_uint16(of_z);
    w = convert_uint16(of_x);
    x = next;
    key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
  }
#define FOURS(a, b, c, d)                                                                                             \
  (uint16)(x.s##a, y.s##a, z.s##a, w.s##a, x.s##b, y.s##b, z.s##b, w.s##b, x.s##c, y.s##c, z.s##c, w.s##c, x.s##d, \
           y.s##d, z.s##d, w.s##d)
  vstore16(FOURS(0, 1, 2, 3), 0, bits);
  vstore16(FOURS(4, 5, 6, 7), 1, bits);
  vstore16(FOURS(8, 9, a, b), 2, bits);
  vstore16(FOURS(c, d, e, f), 3, bits);
}
#endif

kernel void dropout(INPUT(x), INPUT(keys), INPUT(mask), OUTPUT(y), const Shape shape, const uint site, const float rate,
                    const float factor) {
  const long row = get_global_id(0) / shape.chunks;
  if (row >= shape.rows) return;
  const long first = get_global_id(0) % shape.chunks * shape.chunk;
  const long last = min(first + shape.chunk, shape.width);
#if !HAS_mask
  const ulong key = as_ulong(AS(long, keys)[row * shape.key]);
  const uint2 key_words = (uint2)((uint)key, (uint)(key >> 32));
#endif
#if ON_CPU && !HAS_mask
  const long at_x = row * shape.x[0];
  const long at_y = row * shape.y[0];
  for (long begin = first; begin < last; begin += 64) {
    uint bits[64];
    bits_of_16((uint)(begin / 4), site, key_words, bits);
    const int count = (int)min(64l, last - begin);
    // Two loops, as compilers vectorise what lies densely.
    if (shape.x[1] == 1 && shape.y[1] == 1) {
      for (int i = 0; i < count; ++i) {
        const float value = GET(x, at_x + begin + i) * factor;
        PUT_OR_ADD(y, at_y + begin + i, (float)(int)(bits[i] >> 8) * 0x1p-24f >= rate ? value : 0.0f);
      }
    } else {
      for (int i = 0; i < count; ++i) {
        const float value = GET(x, at_x + (begin + i) * shape.x[1]) * factor;
        PUT_OR_ADD(y, at_y + (begin + i) * shape.y[1], (float)(int)(bits[i] >> 8) * 0x1p-24f >= rate ? value : 0.0f);
      }
    }
  }
#else
  for (long four = first; four < last; four += 4) {
#if !HAS_mask
    const uint4 drawn = philox((uint4)((uint)(four / 4), site, 0, 0), key_words);
    const uint bits[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#endif
    for (int i = 0; i < 4 && four + i < last; ++i) {
      const long c = four + i;
#if HAS_mask
      const int keep = AS(uchar, mask)[row * shape.mask[0] + c * shape.mask[1]] != 0;
#else
      const int keep = (float)(bits[i] >> 8) * 0x1p-24f >= rate;
#endif
      const float value = keep ? GET(x, row * shape.x[0] + c * shape.x[1]) * factor : 0.0f;
      PUT_OR_ADD(y, row * shape.y[0] + c * shape.y[1], value);
    }
  }
#endif
}
