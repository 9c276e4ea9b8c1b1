// What KServe's open inference protocol and Triton's generate extension ask, in the tensors of Triton's vLLM backend.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "server/chat_request.h"

namespace tern::server::kserve {

// The tensors that a model takes and gives.
struct TensorSpec {
  const char* name;
  const char* datatype;  // BYTES, BOOL, FP32, UINT32
  bool optional;         // of an input
  int columns;           // of its one dimension; -1: as many as there are answers
};
[[nodiscard]] const std::vector<TensorSpec>& input_tensors();
[[nodiscard]] const std::vector<TensorSpec>& output_tensors();

struct OutputWish {
  std::string name;
  bool binary = false;  // its numbers stand behind the JSON
};

struct InferRequest {
  std::string id;  // the client's own, told again; "": none
  CompletionRequest completion;
  bool stream = false;
  bool prepend_input = false;       // the prompt comes before each answer
  std::vector<OutputWish> outputs;  // in the order in which they're told
};

// POST .../infer: a JSON object, with binary tensors behind its first `header_length` bytes (the header
// Inference-Header-Content-Length; "" where it's all JSON). Throws Failure (data).
[[nodiscard]] InferRequest parse_infer(std::string_view body, std::string_view header_length);
// POST .../generate and generate_stream: the tensors as fields, at the top or in "parameters"; what else stands there
// is of sampling_parameters. Throws Failure (data).
[[nodiscard]] InferRequest parse_generate(std::string_view body);

}  // namespace tern::server::kserve
