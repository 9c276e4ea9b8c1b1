// Low-rank adapters by rows: the rows of a slot come together, so that what few rows wait for, the slot's A and B, is
// read once. An output is one chain of sums that its own row and slot make, whoever the neighbours are.
#include <algorithm>
#include <cstring>

#include "backends/cpu/check.h"
#include "backends/cpu/gemm_kernels.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kInner = 512;    // of x: so much of kRanks rows of A stays in the first cache
constexpr std::int64_t kRanks = 8;      // that TileMath::shrink takes together
constexpr std::int64_t kOutputs = 128;  // whose rows of B stay in the first cache
constexpr std::int64_t kMostRows = 64;  // of a slot that are computed together

// Rows that follow each other in order of slots.
struct Piece {
  std::int32_t first, count, slot;
};

std::int64_t blocks(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

template <typename T>
std::uint64_t bytes_of(std::int64_t count) {
  return round_up(static_cast<std::uint64_t>(count) * sizeof(T));
}

template <typename T>
T* take(std::byte*& workspace, std::int64_t count) {
  auto* out = reinterpret_cast<T*>(workspace);
  workspace += bytes_of<T>(count);
  return out;
}

// Floats that a thread needs: rows of A, or rows of B as they are read and as panels, the left side and its products.
struct Scratch {
  std::int64_t wide, panels, left, sums;

  Scratch(std::int64_t rank, const GemmKernels& kernels)
      : wide(std::max(kRanks * kInner, kOutputs * rank)),
        panels(round_up(kOutputs, kernels.nr) * rank),
        left(kMostRows * rank),
        sums(kMostRows * kOutputs) {}
  [[nodiscard]] std::uint64_t bytes() const { return bytes_of<float>(wide + panels + left + sums); }
};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_LORA_SEGMENTED_X), &a = desc.arg(TERN_LORA_SEGMENTED_A);
  const auto& b = desc.arg(TERN_LORA_SEGMENTED_B);
  return Check(desc, reason)
      .floats({TERN_LORA_SEGMENTED_X, TERN_LORA_SEGMENTED_A, TERN_LORA_SEGMENTED_B, TERN_LORA_SEGMENTED_Y})
      .dtype(TERN_LORA_SEGMENTED_SLOTS, TERN_I32)
      .rank(TERN_LORA_SEGMENTED_X, 2)
      .rank(TERN_LORA_SEGMENTED_A, 3)
      .rank(TERN_LORA_SEGMENTED_B, 3)
      .rank(TERN_LORA_SEGMENTED_SLOTS, 1)
      .rank(TERN_LORA_SEGMENTED_Y, 2)
      .dim(TERN_LORA_SEGMENTED_A, 2, x.shape[1])
      .dim(TERN_LORA_SEGMENTED_B, 0, a.shape[0])
      .dim(TERN_LORA_SEGMENTED_B, 2, a.shape[1])
      .dim(TERN_LORA_SEGMENTED_SLOTS, 0, x.shape[0])
      .dim(TERN_LORA_SEGMENTED_Y, 0, x.shape[0])
      .dim(TERN_LORA_SEGMENTED_Y, 1, b.shape[1])
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& a = desc.arg(TERN_LORA_SEGMENTED_A);
  const std::int64_t rows = desc.arg(TERN_LORA_SEGMENTED_X).shape[0], rank = a.shape[1];
  return bytes_of<std::int32_t>(rows) + bytes_of<std::int32_t>(a.shape[0] + 2) + bytes_of<Piece>(rows) +
         bytes_of<float>(rows * rank) +
         static_cast<std::uint64_t>(desc.num_threads) * Scratch(rank, gemm_kernels(desc.target)).bytes();
}

class LoraSegmented {
 public:
  explicit LoraSegmented(const KernelArgs& args)
      : x_(args[TERN_LORA_SEGMENTED_X]),
        a_(args[TERN_LORA_SEGMENTED_A]),
        b_(args[TERN_LORA_SEGMENTED_B]),
        y_(args[TERN_LORA_SEGMENTED_Y]),
        adds_(args.accumulates(TERN_LORA_SEGMENTED_Y)),
        num_slots_(a_.dim(0)),
        rank_(a_.dim(1)),
        in_(x_.dim(1)),
        out_(y_.dim(1)),
        io_(args),
        math_(tile_math(args.target)),
        kernels_(gemm_kernels(args.target)),
        scratch_(rank_, kernels_) {
    const std::int64_t rows = x_.dim(0);
    std::byte* room = args.workspace;
    order_ = take<std::int32_t>(room, rows);
    offsets_ = take<std::int32_t>(room, num_slots_ + 2);
    pieces_ = take<Piece>(room, rows);
    low_ = take<float>(room, rows * rank_);
    threads_ = room;
    sort_by_slot(args[TERN_LORA_SEGMENTED_SLOTS]);
  }

  void run(ThreadPool& pool) {
    shrink(pool);
    expand(pool);
  }

 private:
  // order_: rows in order of slots, then as they came; slot s has those from offsets_[s] to offsets_[s + 1].
  void sort_by_slot(const TensorView& slots) {
    const std::int64_t rows = x_.dim(0);
    const auto slot_of = [&](std::int64_t row) { return slots.data<const std::int32_t>()[row * slots.stride(0)]; };
    std::fill_n(offsets_, num_slots_ + 2, 0);
    for (std::int64_t row = 0; row < rows; ++row) {
      require_index(slot_of(row), num_slots_ + 1, "lora_segmented: slots");
      ++offsets_[slot_of(row) + 1];
    }
    for (std::int64_t s = 0; s <= num_slots_; ++s) offsets_[s + 1] += offsets_[s];
    for (std::int64_t row = 0; row < rows; ++row) order_[offsets_[slot_of(row)]++] = static_cast<std::int32_t>(row);
    std::copy_backward(offsets_, offsets_ + num_slots_ + 1, offsets_ + num_slots_ + 2);
    offsets_[0] = 0;
  }

  // The rows of the first `slots` slots in pieces of at most `most`.
  std::int64_t cut(std::int64_t slots, std::int64_t most) {
    std::int64_t count = 0;
    for (std::int64_t s = 0; s < slots; ++s) {
      for (std::int32_t first = offsets_[s]; first < offsets_[s + 1]; first += static_cast<std::int32_t>(most)) {
        const auto rows = std::min(static_cast<std::int32_t>(most), offsets_[s + 1] - first);
        pieces_[count++] = {first, rows, static_cast<std::int32_t>(s)};
      }
    }
    return count;
  }

  [[nodiscard]] float* scratch(int thread) const {
    return reinterpret_cast<float*>(threads_ + static_cast<std::uint64_t>(thread) * scratch_.bytes());
  }

  // low_ = a x, by pieces and blocks of ranks.
  void shrink(ThreadPool& pool) {
    const std::int64_t rows = offsets_[num_slots_], per_piece = blocks(rank_, kRanks), threads = pool.num_threads();
    std::int64_t pieces = cut(num_slots_, kMostRows);
    if (pieces * per_piece < threads) pieces = cut(num_slots_, std::max<std::int64_t>(1, rows / threads));
    if (pieces == 0 || per_piece == 0) return;
    // A thread is worth the products, and the reading of A where rows are few.
    const std::int64_t worth = in_ * (rows / pieces + 4) * std::min(rank_, kRanks) / kRanks;
    pool.parallel_for(pieces * per_piece, 1 + kParallelFrom / std::max<std::int64_t>(1, worth),
                      [&](std::int64_t begin, std::int64_t end, int thread) {
                        for (std::int64_t unit = begin; unit < end; ++unit) {
                          shrink_piece(pieces_[unit / per_piece], unit % per_piece * kRanks, scratch(thread));
                        }
                      });
  }

  void shrink_piece(const Piece& piece, std::int64_t rank, float* wide) const {
    alignas(64) TileBuffer buffer;
    const std::int64_t ranks = std::min(kRanks, rank_ - rank);
    float sums[kMostRows * kRanks] = {};
    for (std::int64_t first = 0; first < in_; first += kInner) {
      const std::int64_t n = std::min(kInner, in_ - first);
      std::int64_t stride = 0;
      const float* a = load_rows(a_, piece.slot, rank, ranks, first, n, wide, stride);
      for (std::int64_t i = 0; i < piece.count; ++i) {
        const std::int64_t row = order_[piece.first + i];
        const float* x = io_.load(x_, row * x_.stride(0) + first * x_.stride(1), x_.stride(1), n, buffer.data());
        math_.shrink(x, a, static_cast<std::size_t>(stride), static_cast<std::size_t>(ranks),
                     static_cast<std::size_t>(n), sums + i * kRanks);
      }
    }
    for (std::int64_t i = 0; i < piece.count; ++i) {
      std::copy_n(sums + i * kRanks, ranks, low_ + (piece.first + i) * rank_ + rank);
    }
  }

  // n columns of `count` rows of a slot's matrix as fp32: where they lie, or in `buffer`; `stride` from row to row.
  const float* load_rows(const TensorView& w, std::int64_t slot, std::int64_t row, std::int64_t count,
                         std::int64_t first, std::int64_t n, float* buffer, std::int64_t& stride) const {
    const std::int64_t at = slot * w.stride(0) + row * w.stride(1) + first * w.stride(2);
    stride = w.stride(1);
    if (w.stride(2) == 1 && (w.dtype() == TERN_F32 || stride == n)) return io_.load(w, at, 1, count * n, buffer);
    stride = n;
    for (std::int64_t r = 0; r < count; ++r) {
      const float* from = io_.load(w, at + r * w.stride(1), w.stride(2), n, buffer + r * n);
      if (from != buffer + r * n) std::copy_n(from, n, buffer + r * n);
    }
    return buffer;
  }

  // y = b low_, by pieces and blocks of outputs; rows of no slot are a piece of zeros where nothing is added.
  void expand(ThreadPool& pool) {
    const std::int64_t rows = adds_ ? offsets_[num_slots_] : x_.dim(0), per_piece = blocks(out_, kOutputs);
    const std::int64_t pieces = cut(num_slots_ + (adds_ ? 0 : 1), kMostRows);
    if (pieces == 0) return;
    const std::int64_t worth = kOutputs * rank_ * (rows / pieces + 4) / kRanks;
    pool.parallel_for(pieces * per_piece, 1 + kParallelFrom / std::max<std::int64_t>(1, worth),
                      [&](std::int64_t begin, std::int64_t end, int thread) {
                        for (std::int64_t unit = begin; unit < end; ++unit) {
                          expand_piece(pieces_[unit / per_piece], unit % per_piece * kOutputs, scratch(thread));
                        }
                      });
  }

  void expand_piece(const Piece& piece, std::int64_t output, float* wide) const {
    const std::int64_t n = std::min(kOutputs, out_ - output);
    float* panels = wide + scratch_.wide;
    float* left = panels + scratch_.panels;
    float* sums = left + scratch_.left;
    if (piece.slot == num_slots_) {
      std::fill_n(sums, piece.count * n, 0.0F);
    } else {
      multiply(piece, output, n, wide, panels, left, sums);
    }
    for (std::int64_t i = 0; i < piece.count; ++i) {
      const std::int64_t at = order_[piece.first + i] * y_.stride(0) + output * y_.stride(1);
      put(at, n, sums + i * n);
    }
  }

  // n values into a row of y.
  void put(std::int64_t at, std::int64_t n, float* values) const {
    float* to = TileIo::place(y_, at, y_.stride(1), adds_, values);
    if (to != values) {
      std::copy_n(values, n, to);
    } else {
      io_.store(y_, at, y_.stride(1), n, adds_, values);
    }
  }

  // sums [rows of the piece, n] = low_ times n rows of b, which few rows take as they lie; the others, as panels.
  void multiply(const Piece& piece, std::int64_t output, std::int64_t n, float* wide, float* panels, float* left,
                float* sums) const {
    const auto words = [](const float* values) { return reinterpret_cast<const std::uint32_t*>(values); };
    const auto room = [](float* values) { return reinterpret_cast<std::uint32_t*>(values); };
    std::int64_t stride = 0;
    const float* b = load_rows(b_, piece.slot, output, n, 0, rank_, wide, stride);
    kernels_.transpose(words(low_ + piece.first * rank_), rank_, piece.count, rank_, room(left), piece.count);
    if (piece.count <= kPlainRows) {
      return kernels_.multiply_plain({.k = rank_,
                                      .half = false,
                                      .a = words(left),
                                      .a_stride = piece.count,
                                      .b = words(b),
                                      .b_stride = stride,
                                      .from = nullptr,
                                      .ld_from = 0,
                                      .c = sums,
                                      .ldc = n,
                                      .m = piece.count,
                                      .n = static_cast<int>(n)});
    }
    const std::int64_t panel = kernels_.nr * rank_;
    for (std::int64_t c = 0; c < n; c += kernels_.nr) {
      kernels_.transpose(words(b + c * stride), stride, static_cast<int>(std::min<std::int64_t>(kernels_.nr, n - c)),
                         rank_, room(panels + c * rank_), kernels_.nr);
    }
    for (std::int32_t i = 0; i < piece.count; i += kernels_.mr) {
      kernels_.multiply({.k = rank_,
                         .a = words(left + i),
                         .a_stride = piece.count,
                         .b = words(panels),
                         .b_panel_stride = panel,
                         .from = nullptr,
                         .ld_from = 0,
                         .c = sums + i * n,
                         .ldc = n,
                         .m = std::min(kernels_.mr, piece.count - i),
                         .n = static_cast<int>(n)});
    }
  }

  const TensorView& x_;
  const TensorView& a_;
  const TensorView& b_;
  const TensorView& y_;
  bool adds_;
  std::int64_t num_slots_, rank_, in_, out_;
  TileIo io_;
  const TileMath& math_;
  const GemmKernels& kernels_;
  Scratch scratch_;
  std::int32_t* order_ = nullptr;    // [rows]
  std::int32_t* offsets_ = nullptr;  // [num_slots + 2]
  Piece* pieces_ = nullptr;          // [rows]
  float* low_ = nullptr;             // [rows, rank], rows in order of slots
  std::byte* threads_ = nullptr;
};

void run(const KernelArgs& args) { LoraSegmented(args).run(*args.pool); }

constexpr KernelEntry kKernels[] = {{TERN_OP_LORA_SEGMENTED, "lora_segmented", supports, workspace, nullptr, run}};

}  // namespace

KernelList lora_segmented_kernels() { return kKernels; }

}  // namespace tern::cpu
