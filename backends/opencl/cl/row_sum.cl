// out[row] = sum of x[row, :]: a group for each row.
kernel void sum_rows(INPUT(x), OUTPUT(out), const long rows, const long width, const long x_row, const long x_column,
                     const long out_row) {
  local float scratch[GROUP];
  const long row = get_group_id(0);
  const long at = row * x_row;
  float sum;
  if (x_column == 1) {
    SUM_OVER(part, i, get_local_id(0), width, GROUP, GET(x, at + i))
    sum = part;
  } else {
    SUM_OVER(part, i, get_local_id(0), width, GROUP, GET(x, at + i * x_column))
    sum = part;
  }
  sum = group_sum(sum, scratch);
  if (get_local_id(0) == 0) PUT_OR_ADD(out, row * out_row, sum);
}

// out[column] = sum of x[:, column]: each work-item has COLUMNS of them, and adds rows in blocks, so that long sums stay
// exact.
kernel void sum_columns(INPUT(x), OUTPUT(out), const long rows, const long width, const long x_row, const long x_column,
                        const long out_column) {
  const long first = get_global_id(0) * COLUMNS;
  if (first >= width) return;
  const int count = (int)min((long)COLUMNS, width - first);
  float total[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) total[c] = 0.0f;
  for (long block = 0; block < rows; block += 64) {
    float sum[COLUMNS];
    for (int c = 0; c < COLUMNS; ++c) sum[c] = 0.0f;
    const long end = min(block + 64, rows);
    for (long row = block; row < end; ++row) {
      const long at = row * x_row + first * x_column;
      if (count == COLUMNS && x_column == 1) {
        for (int c = 0; c < COLUMNS; ++c) sum[c] += GET(x, at + c);
      } else {
        for (int c = 0; c < count; ++c) sum[c] += GET(x, at + c * x_column);
      }
    }
    for (int c = 0; c < COLUMNS; ++c) total[c] += sum[c];
  }
  for (int c = 0; c < count; ++c) PUT_OR_ADD(out, (first + c) * out_column, total[c]);
}
