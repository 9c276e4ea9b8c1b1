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
}
