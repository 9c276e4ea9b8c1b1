#include "server/kserve/infer_request.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>

#include "base/strings.h"
#include "server/json_body.h"
#include "server/openai/sampling_fields.h"
#include "server/openai/vllm_fields.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::server::kserve {
namespace {

using io::Json;

constexpr const char* kMend = "send it as the protocol's document says";

// One element of each tensor by its name: a text, or true or false.
using Values = std::map<std::string, Json, std::less<>>;

const TensorSpec* spec_of(std::string_view name) {
  for (const TensorSpec& spec : input_tensors()) {
    if (name == spec.name) return &spec;
  }
  return nullptr;
}

std::uint32_t length_of(std::string_view bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < sizeof(length); ++i) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

// Of binary data: BYTES as a length and the bytes themselves, BOOL as one byte.
Json binary_value(const JsonBody& tensor, const std::string& datatype, std::string_view bytes) {
  if (datatype == "BOOL") {
    if (bytes.size() != 1 || static_cast<unsigned char>(bytes[0]) > 1) {
      throw tensor.wrong("parameters", "one byte of 0 or 1 as its binary data");
    }
    return bytes[0] == 1;
  }
  if (bytes.size() < 4 || length_of(bytes) != bytes.size() - 4) {
    throw tensor.wrong("parameters", "binary data of one element: its length in 4 bytes, and so many bytes");
  }
  const std::string_view text = bytes.substr(4);
  if (tokenizer::valid_prefix(text) != text.size()) throw tensor.wrong("parameters", "UTF-8 as its binary data");
  return std::string(text);
}

// [1], ["x"], or nested as its shape is: [["x"]].
Json json_value(const JsonBody& tensor, const std::string& datatype) {
  const Json* data = tensor.json().find("data");
  while (data != nullptr && data->is_array() && data->size() == 1) data = &(*data)[0];
  if (data != nullptr && datatype == "BYTES" && data->is_string()) return *data;
  if (data != nullptr && datatype == "BOOL" && data->is_boolean()) return *data;
  throw tensor.wrong("data", datatype == "BOOL" ? "one element, true or false" : "one element, a text");
}

void read_input(JsonBody& tensor, std::string_view& binary, Values& values) {
  const std::string name = tensor.required_text("name");
  const TensorSpec* spec = spec_of(name);
  if (spec == nullptr) throw tensor.wrong("name", "an input of the model's");
  if (values.contains(name)) throw tensor.wrong("name", "each input once");
  const std::string datatype = tensor.required_text("datatype");
  if (datatype != spec->datatype) throw tensor.wrong("datatype", spec->datatype);
  const auto shape = tensor.integers("shape");
  if (shape.empty() || std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size != 1; })) {
    throw tensor.wrong("shape", "[1]: a request asks one text");
  }
  std::optional<std::int64_t> bytes;
  if (auto parameters = tensor.object("parameters")) {
    bytes = parameters->integer("binary_data_size", 0);
    parameters->finish();
  }
  if (bytes) {
    if (tensor.find("data") != nullptr) throw tensor.wrong("data", "none beside binary data");
    if (static_cast<std::uint64_t>(*bytes) > binary.size()) {
      throw tensor.wrong("parameters", cat("at most the ", binary.size(), " bytes that are left of the body"));
    }
    values[name] = binary_value(tensor, datatype, binary.substr(0, static_cast<std::size_t>(*bytes)));
    binary.remove_prefix(static_cast<std::size_t>(*bytes));
  } else {
    values[name] = json_value(tensor, datatype);
    tensor.takes({"data"});
  }
  tensor.finish();
}

bool flag(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  return found != values.end() && found->second.get<bool>();
}

// Clients write numbers as texts, too: Triton's parameters have no other type for some.
Json typed(const Json& sampling) {
  Json out = Json::object();
  for (const auto& [key, value] : sampling.items()) {
    out[key] = value;
    if (!value.is_string() || key == "stop" || key == "bad_words") continue;
    const auto read = io::parse_json(value.text(), key);
    if (read && (read->is_number() || read->is_boolean())) out[key] = *read;
  }
  return out;
}

void read_sampling(const Json& sampling, CompletionRequest& request) {
  constexpr std::int64_t kDefaultTokens = 16;  // vLLM's
  JsonBody body(typed(sampling), "sampling_parameters");
  request.sampling = openai::sampling_fields(body);
  openai::vllm_fields(body, request.sampling);
  if (request.sampling.beams) throw body.wrong("use_beam_search", "false: answers are drawn token by token");
  if (request.sampling.token_ids) throw body.wrong("return_token_ids", "false: no tensor tells them");
  if (request.sampling.prompt_logprobs) throw body.wrong("prompt_logprobs", "none: no tensor tells them");
  request.sampling.max_tokens = body.integer("max_tokens", 1).value_or(kDefaultTokens);
  request.n = body.integer("n", 1, 128).value_or(1);
  request.constraint = openai::constraint_fields(body);
  body.finish();
}

InferRequest made_of(const Values& values, Json sampling) {
  InferRequest out;
  const auto text = values.find("text_input");
  if (text == values.end()) throw Failure(data_error(R"(input "text_input")", "a text", "none", kMend));
  if (const auto given = values.find("sampling_parameters"); given != values.end()) {
    Json read = io::parse_json(given->second.text(), "sampling_parameters").value();
    if (!read.is_object()) {
      throw Failure(data_error(R"(input "sampling_parameters")", "a JSON object", read.type_name(), kMend));
    }
    for (const auto& [key, value] : read.items()) sampling[key] = value;
  }
  out.completion.prompt = text->second.text();
  out.stream = flag(values, "stream");
  const auto exclude = values.find("exclude_input_in_output");
  out.prepend_input = exclude == values.end() ? !out.stream : !exclude->second.get<bool>();
  if (out.stream && out.prepend_input) {
    throw Failure(data_error(R"(input "exclude_input_in_output")", "true, or none, where the answer is streamed",
                             "false", "leave it out"));
  }
  read_sampling(sampling, out.completion);
  out.outputs.push_back({"text_output"});
  for (const TensorSpec& spec : output_tensors()) {
    if (flag(values, cat("return_", spec.name))) out.outputs.push_back({spec.name});
  }
  return out;
}

std::size_t split_point(std::string_view body, std::string_view header_length) {
  if (header_length.empty()) return body.size();
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(header_length.data(), header_length.data() + header_length.size(), length);
  if (error != std::errc() || end != header_length.data() + header_length.size() || length > body.size()) {
    throw Failure(data_error("header Inference-Header-Content-Length",
                             cat("the length of the JSON, at most ", body.size()), header_length, kMend));
  }
  return length;
}

// Those that are asked for; without any, those that the inputs ask for.
void read_outputs(JsonBody& body, bool binary, InferRequest& request) {
  for (OutputWish& wish : request.outputs) wish.binary = binary;
  const Json* given = body.find("outputs");
  if (given == nullptr) return;
  if (!given->is_array()) throw body.wrong("outputs", "a list of outputs");
  request.outputs.clear();
  std::size_t at = 0;
  for (const Json& one : *given) {
    JsonBody output(one, cat("outputs[", at++, "]"));
    OutputWish wish{output.required_text("name"), binary};
    const auto& known = output_tensors();
    if (std::none_of(known.begin(), known.end(), [&](const TensorSpec& spec) { return wish.name == spec.name; })) {
      throw output.wrong("name", "an output of the model's");
    }
    if (auto parameters = output.object("parameters")) {
      wish.binary = parameters->boolean("binary_data").value_or(binary);
      parameters->finish();
    }
    output.finish();
    request.outputs.push_back(std::move(wish));
  }
}

}  // namespace

const std::vector<TensorSpec>& input_tensors() {
  static const std::vector<TensorSpec> tensors = {{"text_input", "BYTES", false, 1},
                                                  {"stream", "BOOL", true, 1},
                                                  {"sampling_parameters", "BYTES", true, 1},
                                                  {"exclude_input_in_output", "BOOL", true, 1},
                                                  {"return_finish_reason", "BOOL", true, 1},
                                                  {"return_cumulative_logprob", "BOOL", true, 1},
                                                  {"return_num_input_tokens", "BOOL", true, 1},
                                                  {"return_num_output_tokens", "BOOL", true, 1}};
  return tensors;
}

const std::vector<TensorSpec>& output_tensors() {
  static const std::vector<TensorSpec> tensors = {{"text_output", "BYTES", false, -1},
                                                  {"finish_reason", "BYTES", false, -1},
                                                  {"cumulative_logprob", "FP32", false, -1},
                                                  {"num_input_tokens", "UINT32", false, 1},
                                                  {"num_output_tokens", "UINT32", false, -1}};
  return tensors;
}

InferRequest parse_infer(std::string_view text, std::string_view header_length) {
  const std::size_t split = split_point(text, header_length);
  std::string_view binary = text.substr(split);
  JsonBody body(text.substr(0, split));
  const Json* inputs = body.find("inputs");
  if (inputs == nullptr || !inputs->is_array()) throw body.wrong("inputs", "a list of inputs");
  Values values;
  std::size_t at = 0;
  for (const Json& one : *inputs) {
    JsonBody tensor(one, cat("inputs[", at++, "]"));
    read_input(tensor, binary, values);
  }
  if (!binary.empty()) {
    throw Failure(data_error("body", "no bytes behind those of its inputs", cat(binary.size()), kMend));
  }
  bool binary_output = false;
  Json sampling = Json::object();
  if (auto parameters = body.object("parameters")) {  // Triton's vLLM backend takes those of sampling here, too
    binary_output = parameters->boolean("binary_data_output").value_or(false);
    for (const auto& [key, value] : parameters->json().items()) {
      if (key != "binary_data_output") sampling[key] = value;
    }
  }
  InferRequest out = made_of(values, std::move(sampling));
  if (out.stream) {
    throw Failure(data_error(R"(input "stream")", "false, as this route gives one answer", "true",
                             "ask generate_stream for a stream"));
  }
  out.id = body.text("id").value_or("");
  read_outputs(body, binary_output, out);
  body.takes({"model_name"});
  body.finish();
  return out;
}

InferRequest parse_generate(std::string_view text) {
  JsonBody body(text);
  Values values;
  Json sampling = Json::object();
  const auto read = [&](JsonBody& fields) {
    for (const auto& [key, value] : fields.json().items()) {
      const TensorSpec* spec = spec_of(key);
      if (value.is_null() || key == "parameters" || key == "id") continue;
      if (spec == nullptr) {
        sampling[key] = value;
      } else if (std::string_view(spec->datatype) == "BOOL") {
        values[key] = fields.boolean(key).value_or(false);
      } else {
        values[key] = fields.required_text(key);
      }
    }
  };
  read(body);
  if (auto parameters = body.object("parameters")) read(*parameters);
  InferRequest out = made_of(values, std::move(sampling));
  out.id = body.text("id").value_or("");
  return out;
}

}  // namespace tern::server::kserve
