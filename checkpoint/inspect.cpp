#include "checkpoint/inspect.h"

#include <algorithm>
#include <map>

#include "base/dtype.h"
#include "base/strings.h"
#include "checkpoint/checkpoint_source.h"
#include "checkpoint/logical_tensors.h"
#include "io/json.h"

namespace tern::checkpoint {
namespace {

using Json = io::Json;

constexpr std::size_t kShownElements = 8;
constexpr std::size_t kShownText = 200;

std::string dump(const Json& value) { return value.dump(); }

std::string shortened(std::string_view text) {
  if (text.size() <= kShownText) return dump(std::string(text));
  std::size_t end = kShownText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // whole characters
  return dump(cat(text.substr(0, end), "... (", text.size(), " bytes)"));
}

template <typename T>
std::string shown_array(const std::vector<T>& values) {
  std::string out = "[";
  for (std::size_t i = 0; i < std::min(values.size(), kShownElements); ++i)
    out += (i != 0 ? ", " : "") + dump(values[i]);
  return out + (values.size() > kShownElements ? cat(", ... (", values.size(), ")]") : std::string("]"));
}

std::string shown(const GgufValue& value) {
  if (value.type == GgufValueType::string) return shortened(*value.text());
  if (value.type == GgufValueType::boolean) return *value.boolean() ? "true" : "false";
  if (const auto integer = value.integer()) return cat(*integer);
  if (const auto number = value.number())
    return dump(value.type == GgufValueType::f32 ? Json(static_cast<float>(*number)) : Json(*number));
  if (const auto texts = value.texts()) return shown_array(*texts);
  if (const auto integers = value.integers()) return shown_array(*integers);
  if (const auto numbers = value.numbers()) return shown_array(*numbers);
  return cat("[", value.count, " ", gguf_value_type_name(value.element), "]");
}

std::string describe_scheme(const LogicalTensor& tensor) {
  const tern_scheme& scheme = tensor.scheme;
  if (tensor.scale == nullptr) return {};
  std::string out = cat(scheme.bits, " bit, groups ", scheme.group_rows, " x ", scheme.group_cols, ", scales ",
                        dtype_name(scheme.scale_dtype));
  if (tensor.permutation != nullptr) out += ", permuted";
  if ((scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0) out += ", double quantised";
  return out;
}

void describe_source(const CheckpointSource& source, Inspection& out) {
  if (const Gguf* gguf = source.gguf()) {
    out.format = cat("GGUF v", gguf->version());
    out.architecture = gguf->text_or("general.architecture", "").value();
    for (const auto& [key, value] : gguf->metadata()) out.metadata.emplace_back(key, shown(value));
    return;
  }
  out.format = source.kind() == CheckpointSource::Kind::hugging_face ? "Hugging Face directory" : "safetensors";
  for (const auto& [key, value] : source.safetensors_metadata())
    out.metadata.emplace_back(cat("__metadata__.", key), shortened(value));
  if (source.config() == nullptr) return;
  for (const auto& [key, value] : source.config()->items()) {
    const std::string text = dump(value);
    out.metadata.emplace_back(key, text.size() > kShownText ? shortened(text) : text);
  }
  const Json* found = source.config()->find("model_type");
  if (found != nullptr && found->is_string()) out.architecture = found->get<std::string>();
}

Inspection inspect_source(const CheckpointSource& source) {
  Inspection out;
  out.path = source.path().string();
  describe_source(source, out);
  std::map<std::string, StorageTotal> totals;
  const std::vector<LogicalTensor> tensors = logical_tensors(source).value();
  for (const LogicalTensor& tensor : tensors) {
    const std::uint64_t parameters = element_count(tensor.shape).value_or(0);
    InspectedTensor one{tensor.name, tensor.shape, tensor.storage_name(), describe_scheme(tensor),
                        tensor.stored_bytes()};
    StorageTotal& total = totals[one.storage];
    total.storage = one.storage;
    ++total.tensors;
    total.parameters += parameters;
    total.bytes += one.bytes;
    out.parameters += parameters;
    out.stored_bytes += one.bytes;
    out.tensors.push_back(std::move(one));
  }
  for (auto& [name, total] : totals) out.totals.push_back(total);
  std::sort(out.totals.begin(), out.totals.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  out.bfloat16_bytes = out.parameters * 2;
  out.float32_bytes = out.parameters * 4;
  for (const auto& file : source.files()) {
    ++out.files;
    out.file_bytes += file->bytes().size();
  }
  source.intact().value();
  return out;
}

}  // namespace

Result<Inspection> inspect(const std::filesystem::path& path) {
  return catching([&] { return inspect_source(CheckpointSource::open(path).value()); });
}

Json to_json(const Inspection& inspection) {
  Json out = Json::object();
  out["path"] = inspection.path;
  out["format"] = inspection.format;
  out["architecture"] = inspection.architecture;
  out["files"] = inspection.files;
  out["file_bytes"] = inspection.file_bytes;
  out["parameters"] = inspection.parameters;
  out["memory"] = {
      {"as_stored", inspection.stored_bytes}, {"bf16", inspection.bfloat16_bytes}, {"f32", inspection.float32_bytes}};
  Json totals = Json::array();
  for (const StorageTotal& total : inspection.totals) {
    totals.push_back({{"storage", total.storage},
                      {"tensors", total.tensors},
                      {"parameters", total.parameters},
                      {"bytes", total.bytes}});
  }
  out["storage"] = std::move(totals);
  Json metadata = Json::object();
  for (const auto& [key, value] : inspection.metadata) {
    // A shortened array is no JSON any more: it stays text.
    auto parsed = io::parse_json(value, key);
    metadata.append(key, parsed ? std::move(*parsed) : Json(value));
  }
  out["metadata"] = std::move(metadata);
  Json tensors = Json::array();
  for (const InspectedTensor& tensor : inspection.tensors) {
    Json one = {{"name", tensor.name}, {"shape", tensor.shape}, {"storage", tensor.storage}, {"bytes", tensor.bytes}};
    if (!tensor.scheme.empty()) one["scheme"] = tensor.scheme;
    tensors.push_back(std::move(one));
  }
  out["tensors"] = std::move(tensors);
  return out;
}

std::string to_text(const Inspection& inspection) {
  std::string out = cat(inspection.path, "\n", inspection.format, ", ", inspection.files,
                        inspection.files == 1 ? " file, " : " files, ", human_bytes(inspection.file_bytes), "\n");
  if (!inspection.architecture.empty()) out += cat("architecture ", inspection.architecture, "\n");
  out += cat("parameters ", inspection.parameters, " (", fixed(static_cast<double>(inspection.parameters) / 1e6, 1),
             " million)\n");
  out += cat("memory of the weights: ", human_bytes(inspection.stored_bytes), " as stored, ",
             human_bytes(inspection.bfloat16_bytes), " in bf16, ", human_bytes(inspection.float32_bytes), " in f32\n");
  for (const StorageTotal& total : inspection.totals) {
    out += cat("  ", total.storage, ": ", total.tensors, " tensors, ", total.parameters, " parameters, ",
               human_bytes(total.bytes), "\n");
  }
  if (!inspection.metadata.empty()) out += "\nmetadata\n";
  for (const auto& [key, value] : inspection.metadata) out += cat("  ", key, " = ", value, "\n");
  std::size_t width = 0;
  for (const InspectedTensor& tensor : inspection.tensors) width = std::max(width, tensor.name.size());
  out += "\ntensors\n";
  for (const InspectedTensor& tensor : inspection.tensors) {
    out += cat("  ", tensor.name, std::string(width - tensor.name.size() + 2, ' '), tensor.storage, "  ",
               shape_text(tensor.shape), "  ", human_bytes(tensor.bytes), tensor.scheme.empty() ? "" : "  ",
               tensor.scheme, "\n");
  }
  return out;
}

}  // namespace tern::checkpoint
