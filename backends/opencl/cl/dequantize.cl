// A part of a weight as numbers: rows from `first_row` on, and of each `columns` from `first_column` on. A work-item has up
// to `steps` times 16 neighbours. -D PACKING; 0: the weight lies as numbers, any strides.
#if PACKING == 0
kernel void dequantize(INPUT(w), const long w_row, const long w_column, const int w_type, OUTPUT(y), const long y_row,
                       const long y_column, const int y_type, const long first_row, const long first_column,
                       const int columns, const int steps) {
  const long row = get_global_id(1);
  const int begin = get_global_id(0) * steps * 16, end = min(begin + steps * 16, columns);
  for (int c = begin; c < end; ++c) {
    const float x = load_float(w_type, AT(w), (first_row + row) * w_row + (first_column + c) * w_column);
    store_float(y_type, AT(y), row * y_row + c * y_column, x);
  }
}
#else
#include "backends/opencl/cl/packing.clh"
kernel void dequantize(WEIGHT_PARAMETERS, OUTPUT(y), const long y_row, const long y_column, const int y_type,
                       const long first_row, const long first_column, const int columns, const int steps) {
  const long row = get_global_id(1);
  const int begin = get_global_id(0) * steps * 16, end = min(begin + steps * 16, columns);
  OPEN_WEIGHT
  for (int c = begin; c < end; c += 16) {
    const float16 x = weight_16(&weight, first_row + row, first_column + c);
    const long at = row * y_row + c * y_column;
    if (y_type == F32 && y_column == 1) {
      vstore16(x, 0, AS_OUT(float, y) + at);
    } else {
      float values[16];
      vstore16(x, 0, values);
      for (int l = 0; l < 16; ++l) store_float(y_type, AT(y), at + l * y_column, values[l]);
    }
  }
}
#endif
