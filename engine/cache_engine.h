// The key-value caches of one engine: tensors made from what the model's layers keep of past tokens, in blocks that
// sequences hold. Beside them lie the tokens' ids in the same blocks, and which blocks those of each seat are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/block_pool.h"
#include "engine/state_snapshots.h"
#include "graph/tensor_scope.h"
#include "nn/cache_spec.h"
#include "nn/token_inputs.h"

namespace tern::engine {

class CacheEngine;

struct CacheOptions {
  tern_dtype dtype = TERN_F32;
  std::int64_t max_model_len = 2048;  // tokens of one sequence
  std::int64_t max_num_seqs = 1;
  bool shorten = false;  // where one sequence does not fit: fewer tokens instead of an error, and a line that says so
  std::uint64_t memory = 0;  // bytes; 0: `share` of what the device has free
  double share = 0.8;
  std::uint64_t reserved = 0;        // bytes of what is free that are for others, to whom they come later
  std::int64_t state_snapshots = 0;  // copies of states (state_snapshots.h), fewer where memory is for one sequence
  bool guesses = false;              // each seat has a copy of its states from before guesses (state_replay.h), too
  // Another cache whose blocks have the same numbers (draft_model.h) shares the memory.
  std::vector<nn::CacheSpec> beside = {};
  tern_dtype beside_dtype = TERN_F32;
  // Of that one: the cache whose blocks, seats and lengths it has; whatever the memory. Null: its own.
  const CacheEngine* like = nullptr;
};

// Whether some layer keeps a state of all tokens so far.
[[nodiscard]] bool has_states(const std::vector<nn::CacheSpec>& specs);

// Owns the tensors, under names that no other engine over the same store uses; they go with it. Memory is taken as it
// comes: no kernel reads what kv_write has not written, so nothing but the block tables is cleared, and a page that no
// sequence reached costs nothing where the device hands pages out at their first use.
class CacheEngine {
 public:
  // As many blocks as the memory holds, at most what `max_num_seqs` sequences of `max_model_len` tokens could use.
  // Throws Failure (device): no room for one sequence, or no memory.
  CacheEngine(std::shared_ptr<graph::TensorStore> store, std::vector<nn::CacheSpec> specs, const CacheOptions& options);
  ~CacheEngine();
  CacheEngine(const CacheEngine&) = delete;
  CacheEngine& operator=(const CacheEngine&) = delete;

  [[nodiscard]] BlockPool& pool() { return *pool_; }
  [[nodiscard]] const BlockPool& pool() const { return *pool_; }
  [[nodiscard]] std::int64_t num_blocks() const { return pool_->num_blocks(); }  // that sequences can hold
  [[nodiscard]] std::int64_t block_size() const { return pool_->block_size(); }  // tokens
  [[nodiscard]] std::int64_t max_model_len() const { return options_.max_model_len; }
  [[nodiscard]] tern_dtype dtype() const { return options_.dtype; }
  [[nodiscard]] std::uint64_t bytes() const;  // of all tensors, block 0 and seat 0 included
  [[nodiscard]] accel::Device& device() const { return *store_->device(); }
  // All that the caches of a block hold, its tokens' ids included, one after the other; copied to the host and back.
  [[nodiscard]] std::uint64_t block_bytes() const;
  void read_block(std::int32_t block, std::span<std::byte> bytes, const accel::Stream& stream) const;
  void write_block(std::int32_t block, std::span<const std::byte> bytes, const accel::Stream& stream);
  // Copies of the states of one seat that can be kept.
  [[nodiscard]] std::int64_t num_state_snapshots() const { return options_.state_snapshots; }
  // Where that of the states from before a seat's guesses is, behind all of those.
  [[nodiscard]] std::int32_t place_before_guesses(std::int32_t seat) const {
    return static_cast<std::int32_t>(options_.state_snapshots) + seat - 1;
  }
  // Makes these copies, one after the other, while no step runs, and waits for them.
  void copy_states(std::span<const StateCopy> copies);
  // Writes the first entries of a seat's row of the device's block tables, while no step runs, and waits for it.
  void seat_blocks(std::int32_t seat, std::span<const std::int32_t> blocks);
  // What graphs over this cache are declared with.
  [[nodiscard]] nn::PagedCapacity capacity() const;

 private:
  // A tensor that has a run of bytes for each block.
  struct BlockPart {
    tern_plane plane;  // of block 0
    std::uint64_t bytes = 0;
  };
  // A tensor that has a run of bytes for each seat, and the one that keeps copies of them.
  struct StatePart {
    tern_plane seats;
    tern_plane places;
    std::uint64_t bytes = 0;
  };
  void create_tensors();
  void create_states(const nn::CacheSpec& spec);
  void create_blocks(const std::string& name, const TensorDesc& desc);

  std::shared_ptr<graph::TensorStore> store_;
  std::optional<graph::TensorScope> tensors_;
  std::vector<nn::CacheSpec> specs_;
  CacheOptions options_;
  std::string scope_;
  std::vector<BlockPart> parts_;
  std::vector<StatePart> states_;
  std::unique_ptr<BlockPool> pool_;
};

}  // namespace tern::engine
