// Rows of a table by ids. A thread has 16 columns of a row, or 8 where the table holds numbers.
#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/packing.cuh"
#include "backends/cuda/cu/vectors.cuh"

struct EmbeddingSizes {
  long rows, width, chunks, vocab;
  long table[2], ids, y[2];
};

KERNEL(embedding_numbers)(Tensor table, const int* ids, Tensor y, EmbeddingSizes s) {
  long row, chunk;
  if (!find_part(s.rows, s.chunks, row, chunk)) return;
  const long id = ids[row * s.ids], c = chunk * W, left = s.width - c;
  Floats values = floats_of(0.0f);
  if (id >= 0 && id < s.vocab) values = fetch(table, id * s.table[0] + c * s.table[1], s.table[1], left);
  spread(y, row * s.y[0] + c * s.y[1], s.y[1], left, values);
}

template <int packing>
DEVICE void embed(const Weight& table, const int* ids, const Tensor& y, const EmbeddingSizes& s) {
  long row, chunk;
  if (!find_part(s.rows, s.chunks, row, chunk)) return;
  const long id = ids[row * s.ids], c = chunk * 16;
  float values[16] = {};
  if (id >= 0 && id < s.vocab) weight_16<packing>(table, id, static_cast<int>(c), values);
  UNROLL for (int half = 0; half < 16; half += W) {
    Floats part;
    UNROLL for (int i = 0; i < W; ++i) part[i] = values[half + i];
    spread(y, row * s.y[0] + (c + half) * s.y[1], s.y[1], s.width - c - half, part);
  }
}
#define EMBED(packing)                                                                    \
  KERNEL(embedding_##packing)(Weight table, const int* ids, Tensor y, EmbeddingSizes s) { \
    embed<packing>(table, ids, y, s);                                                     \
  }
EACH_PACKING_OF_BLOCKS(EMBED)
EACH_PACKING_OF_PLANES(EMBED)
