kernel void shard_index(INPUT(ids), OUTPUT(y), const Walk walk, const long first, const long count) {
#define STEP(o, i0)                          \
  const long at = AS(int, ids)[i0] - first;  \
  AS_OUT(int, y)[o] = at >= 0 && at < count ? (int)at : -1;
  WALK(walk, 2, STEP)
}
