// Adapters that aren't a pair beside a linear layer, and whose tensors PEFT's file has in another form than the store:
// on embeddings (lora_embedding_A, lora_embedding_B) and on the fused weights of experts (target_parameters).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "graph/tensor_scope.h"
#include "models/adapter_config.h"
#include "models/loader.h"
#include "nn/context.h"

namespace tern::models {

// A tensor of PEFT's file, and the fp32 tensors of the store that hold its numbers.
struct AdapterPart {
  enum class Form {
    plain,       // as it stands in the file
    transposed,  // an embedding's A: [rank, vocab] in the file, [vocab, rank] in the store
    by_expert,   // experts' B: [out, rank * experts] in the file, column j * experts + e being column j of expert e
  };
  struct Piece {
    std::string stored;
    std::vector<std::int64_t> shape;  // in the store
    // Of by_expert: row i of each expert is row first + i * step of the file's tensor.
    std::int64_t first = 0;
    std::int64_t step = 1;
  };
  std::string name;                 // in the file
  std::vector<std::int64_t> shape;  // in the file
  Form form = Form::plain;
  std::vector<Piece> pieces;
  bool is_embedding = false;
  bool begins_random = false;  // of a new adapter: its numbers are drawn; the other half's are zero
};

// What an adapter has of that kind: layers for the graph, and their tensors in the file.
struct AdapterParts {
  std::map<std::string, nn::LoraLayer> layers;  // by module; of experts by projection
  std::vector<AdapterPart> parts;
};

// Names of the token embeddings that an adapter can sit on: what ms-swift's all-embedding means.
[[nodiscard]] std::vector<std::string> embedding_modules(const ModelConfig& config);

// PEFT's name of an embedding's A.
[[nodiscard]] std::string embedding_name(const std::string& module);

// Adapters on these embeddings, and on the experts' weights that config.target_parameters name as PEFT matches them.
// Errors (usage): a target that names no such weight; dropout, which PEFT can't apply to experts.
[[nodiscard]] Result<AdapterParts> adapter_parts(const ModelConfig& model, const std::string& adapter,
                                                 const AdapterConfig& config,
                                                 const std::vector<std::string>& embeddings);

void create_parts(graph::TensorScope& tensors, const AdapterParts& parts);
// Throws Failure (data): an absent or misshapen tensor.
void read_parts(graph::TensorStore& store, const std::vector<AdapterPart>& parts, const checkpoint::Safetensors& file);
// The numbers of one as the file has them, fp32.
[[nodiscard]] std::vector<float> part_values(const graph::TensorStore& store, const AdapterPart& part);

// What an adapter's file adds to rows of parameters, for merging.
class PartDeltas {
 public:
  PartDeltas(const ModelConfig& config, const AdapterConfig& adapter, const checkpoint::Safetensors& file);
  // Adds to rows [first, first + count) of the parameter seen as [rows of all matrices, columns], in its own order and
  // the model's numbers. Safe to call from several threads.
  void add(const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> rows) const;
  [[nodiscard]] std::size_t num_tensors() const { return num_tensors_; }

 private:
  struct Delta {
    std::int64_t rank = 0;
    float scaling = 0;
    std::int64_t rows = 0;  // of a matrix
    std::vector<float> a;   // [matrices, rank, columns]
    std::vector<float> b;   // [matrices, rows, rank]
  };
  std::map<std::string, Delta> deltas_;  // by parameter
  std::size_t num_tensors_ = 0;
};

}  // namespace tern::models
