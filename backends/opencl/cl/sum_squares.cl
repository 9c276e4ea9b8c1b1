// A group's chunks: every GROUPS-th.
kernel void sum_part(INPUT(x), OUTPUT(parts), const Walk walk) {
  local float scratch[GROUP];
  float total = 0.0f;
  for (long unit = get_group_id(0); unit < walk.units; unit += GROUPS) {
    const long row = walk_row(&walk, 0, unit / walk.chunks);
    const long first = unit % walk.chunks * walk.chunk;
    const long last = min(first + walk.chunk, walk.inner);
    const long begin = first + get_local_id(0);
    if (walk.dense) {
      SUM_OVER(sum, i, begin, last, GROUP, GET(x, row + i) * GET(x, row + i))
      total += sum;
    } else {
      const long stride = walk.inner_stride[0];
      SUM_OVER(sum, i, begin, last, GROUP, GET(x, row + i * stride) * GET(x, row + i * stride))
      total += sum;
    }
  }
  total = group_sum(total, scratch);
  if (get_local_id(0) == 0) AS_OUT(float, parts)[get_group_id(0)] = total;
}

kernel void sum_parts(INPUT(parts), OUTPUT(out), const int adds) {
  SUM_OVER(sum, i, 0, GROUPS, 1, AS(float, parts)[i])
  global float* const place = AS_OUT(float, out);
  *place = adds ? *place + sum : sum;
}
