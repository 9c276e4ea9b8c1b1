// What turns pairs of a head's features. Pair i is features (i, i + rotary / 2), or (2 i, 2 i + 1) where they are
// interleaved; features behind the first `rotary` are kept.
#pragma once

#include "backends/cuda/cu/vectors.cuh"

// HeadSizes of rope.cpp.
struct HeadSizes {
  long rows, heads, tables;  // tables: positions that have cosines and sines
  long positions, cos[2], sin[2];
  int head_dim, half_of;  // half_of: rotary / 2
  int interleaved, inverse;
};

// What one thread turns: two vectors of features, W pairs; or one vector that is kept.
struct Chunk {
  bool turned;
  int first, second;        // features where the vectors begin
  int in_first, in_second;  // features that are left from there: less than W where a vector isn't whole, or 0
  int pair;
};
DEVICE int chunks_of(const HeadSizes& s) { return (s.half_of + W - 1) / W + (s.head_dim - 2 * s.half_of + W - 1) / W; }
DEVICE Chunk chunk_of(int item, const HeadSizes& s) {
  const int turned = (s.half_of + W - 1) / W;
  const int pair = item * W;
  if (item >= turned) {
    const int first = 2 * s.half_of + (item - turned) * W;
    return {false, first, first, s.head_dim - first, 0, 0};
  }
  if (s.interleaved == 0) return {true, pair, s.half_of + pair, s.half_of - pair, s.half_of - pair, pair};
  return {true, 2 * pair, 2 * pair + W, 2 * (s.half_of - pair), 2 * (s.half_of - pair) - W, pair};
}

// The features of a chunk.
struct RawPairs {
  Raw first, second;
};
struct Pairs {
  Floats first, second;
};
template <int type>
DEVICE RawPairs load_pairs(const Tensor& x, long head, long stride, const Chunk& chunk) {
  return {load<type>(x, head + chunk.first * stride, stride, chunk.in_first),
          load<type>(x, head + chunk.second * stride, stride, chunk.in_second)};
}
template <int type>
DEVICE Pairs loaded_pairs(const RawPairs& raw) {
  return {loaded<type>(raw.first), loaded<type>(raw.second)};
}
template <int type>
DEVICE void store_pairs(const Tensor& y, long head, long stride, const Chunk& chunk, const Pairs& value) {
  store<type>(y, head + chunk.first * stride, stride, chunk.in_first, value.first);
  store<type>(y, head + chunk.second * stride, stride, chunk.in_second, value.second);
}
DEVICE Pairs operator+(const Pairs& a, const Pairs& b) { return {a.first + b.first, a.second + b.second}; }
DEVICE Pairs operator-(const Pairs& a, const Pairs& b) { return {a.first - b.first, a.second - b.second}; }
DEVICE Pairs operator*(const Pairs& a, const Pairs& b) { return {a.first * b.first, a.second * b.second}; }
DEVICE Pairs operator*(const Pairs& a, float b) { return {a.first * b, a.second * b}; }
DEVICE float sum_of(const Pairs& x) { return sum_of(x.first + x.second); }

// The cosines and sines of a chunk's pairs. The position is cut to those that there are.
template <int type>
DEVICE Pairs load_angles(const int* positions, const Tensor& cosines, const Tensor& sines, long row, const Chunk& chunk,
                         const HeadSizes& s) {
  if (!chunk.turned) return {floats_of(1.0f), floats_of(0.0f)};
  long position = positions[row * s.positions];
  position = position < 0 ? 0 : position < s.tables ? position : s.tables - 1;
  const int left = s.half_of - chunk.pair;
  constexpr int how = type == ANY ? ANY : F32;
  const Raw cosine = load<how>(cosines, position * s.cos[0] + chunk.pair * s.cos[1], s.cos[1], left);
  const Raw sine = load<how>(sines, position * s.sin[0] + chunk.pair * s.sin[1], s.sin[1], left);
  return {loaded<how>(cosine), loaded<how>(sine)};
}
// (u, w) becomes (u cos - w sin, w cos + u sin).
DEVICE void turn_pair(float& u, float& w, float cosine, float sine) {
  const float old = u;
  u = old * cosine - w * sine;
  w = w * cosine + old * sine;
}
DEVICE void turn(Pairs& x, const Chunk& chunk, const Pairs& angles, int interleaved, float direction) {
  if (!chunk.turned) return;
  const Floats& cosine = angles.first;
  const Floats sine = angles.second * direction;
  if (interleaved == 0) {
    UNROLL for (int i = 0; i < W; ++i) turn_pair(x.first[i], x.second[i], cosine[i], sine[i]);
    return;
  }
  UNROLL for (int i = 0; i < W / 2; ++i) {
    turn_pair(x.first[2 * i], x.first[2 * i + 1], cosine[i], sine[i]);
    turn_pair(x.second[2 * i], x.second[2 * i + 1], cosine[W / 2 + i], sine[W / 2 + i]);
  }
}
