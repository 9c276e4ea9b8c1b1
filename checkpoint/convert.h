// A checkpoint written anew: in another container, in other dtypes, or both, without ever holding more of it than a few
// rows. Names, rows and metadata change only as the caller says, since only models/ knows what a name means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"
#include "checkpoint/gguf_writer.h"

namespace tern::checkpoint {

// A tensor that the source lacks and the target wants.
struct AddedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// A tensor of the target that the source keeps under another name, in another order of rows, or as several tensors.
struct TargetTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<std::string> sources;  // the tensors that it is made of, at least one; the first one's type is its own
  // Where it is nothing but whole rows of its sources: rows [first, first + count) of sources[source], one run after
  // the other, all of one length. Empty: its numbers are computed.
  struct Rows {
    std::size_t source = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  std::vector<Rows> rows;
  // Gives rows [first, first + count) of it, seen as [product of leading dimensions, last dimension]. Called from
  // several threads. Throws Failure.
  std::function<void(std::int64_t first, std::int64_t count, std::span<float> values)> values;
};

enum class Container { gguf, safetensors_file, safetensors_directory };

// By the target's name: .gguf, .safetensors, else a directory.
[[nodiscard]] Container container_of(const std::filesystem::path& target);

struct ConvertOptions {
  std::optional<Container> container;  // absent: container_of(target)
  // f32, f16, bf16, q8_0, q4_0, q4_1, q4_k, q6_k; empty: as stored, and numbers that are computed in the type of the
  // tensor that they come from, or the next finer one that is written here. Tensors of one dimension keep f32 in a GGUF file
  // that holds block types, as llama.cpp expects.
  std::string outtype;
  std::uint64_t max_shard_size = 5'000'000'000;
  bool replace = false;
  int threads = 0;                           // 0: all that may be used
  std::vector<TargetTensor> tensors;         // what is written, in this order; empty: the source's, as they are
  std::vector<AddedTensor> added;            // written as f32
  std::optional<GgufMetadata> metadata;      // of a GGUF target; absent: the source's own, if it is one
  std::map<std::string, std::string> files;  // further files of a directory target, by name
  bool copy_files = true;                    // a directory source's json, txt and model files, to a directory target
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // bytes read; false stops and leaves nothing
  // Looks at what was written before it gets its name; where it throws, nothing is left.
  std::function<void(const std::filesystem::path& written)> check;
};

struct ConvertReport {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string>
      notes;  // "blk.0.ffn_down.weight: q8_0 in place of q4_k, as rows of 576 are no multiple of 256"
};

// The source's own tensors as a list of what is written. They refer to the source, which must outlive them.
[[nodiscard]] Result<std::vector<TargetTensor>> tensors_as_stored(const CheckpointSource& source);

[[nodiscard]] Result<ConvertReport> convert_checkpoint(const CheckpointSource& source,
                                                       const std::filesystem::path& target,
                                                       const ConvertOptions& options);

}  // namespace tern::checkpoint
