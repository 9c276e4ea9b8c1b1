// What config.json says of the quantisation, beside what the planes say themselves.
#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/strings.h"
#include "checkpoint/gather.h"

namespace tern::checkpoint {
namespace {

constexpr const char* kUnquantised = "use the unquantised checkpoint";

// Throws where a text is none of those that are read.
template <std::size_t N>
void expect_one_of(const io::JsonField& quantization, const char* key, const std::array<std::string_view, N>& known) {
  const auto found = quantization.find(key);
  if (!found || std::find(known.begin(), known.end(), found->text()) != known.end()) return;
  std::string all(known.front());
  for (std::size_t i = 1; i < N; ++i) all += cat(i + 1 < N ? ", " : " or ", known[i]);
  throw found->wrong(all, kUnquantised);
}

void check_compressed(const io::JsonField& quantization) {
  expect_one_of(quantization, "format",
                std::array<std::string_view, 7>{"pack-quantized", "int-quantized", "float-quantized", "naive-quantized",
                                                "mixed-precision", "dense", "fakequant"});
  if (const auto groups = quantization.find("config_groups")) {
    for (const auto& member : groups->object())
      expect_one_of(groups->member(member), "format",
                    std::array<std::string_view, 5>{"pack-quantized", "int-quantized", "float-quantized",
                                                    "naive-quantized", "dense"});
  }
  if (const auto sparsity = quantization.find("sparsity_config"))
    expect_one_of(*sparsity, "format", std::array<std::string_view, 1>{"dense"});
  const auto transforms = quantization.find("transform_config");
  const auto turns = transforms ? transforms->find("config_groups") : std::nullopt;
  if (turns && !turns->object().empty())
    throw turns->wrong("none, as rotations of activations aren't computed here", kUnquantised);
}

// "int8 (dynamic)"; empty: not rounded.
std::string rounding_of(const io::JsonField& scheme, const char* key) {
  const auto found = scheme.find(key);
  if (!found) return {};
  const auto dynamic = found->find("dynamic");
  const bool is_dynamic = dynamic && dynamic->json().dump() != "false";
  return cat(found->text("type", "int"), found->integer("num_bits", 8), is_dynamic ? ", dynamic" : ", static");
}

// What the method's own tools round activations to; empty: they don't.
std::string activations(const io::JsonField& quantization, const std::string& method) {
  if (const auto groups = quantization.find("config_groups")) {
    for (const auto& member : groups->object()) {
      if (!groups->member(member).find("targets")) continue;
      for (const char* key : {"input_activations", "output_activations"}) {
        if (std::string found = rounding_of(groups->member(member), key); !found.empty()) return found;
      }
    }
  }
  if (method == "fbgemm_fp8") return "float8, dynamic";
  if (method == "fp8") {
    if (const std::string scheme = quantization.text("activation_scheme", ""); !scheme.empty())
      return cat("float8, ", scheme);
  }
  if (method == "bitsandbytes" && quantization.boolean("load_in_8bit", false)) return "int8, dynamic, but for outliers";
  return {};
}

}  // namespace

std::string awq_version(const PlaneFinder& finder) {
  std::string version = finder.setting("version", finder.setting("format", "gemm"));
  for (char& letter : version) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return version;
}

void check_quantization(const PlaneFinder& finder) {
  const auto& quantization = finder.quantization();
  if (!quantization) return;
  const std::string& method = finder.method();
  if (!method.empty())
    expect_one_of(*quantization, "quant_method",
                  std::array<std::string_view, 8>{"fp8", "fbgemm_fp8", "awq", "gptq", "compressed-tensors", "modelopt",
                                                  "bitsandbytes", "mxfp4"});
  if (method == "compressed-tensors") check_compressed(*quantization);
  // exllama's kernels read gemm's files; gemv_fast and marlin have orders of their own.
  if (method != "awq") return;
  constexpr std::array<std::string_view, 4> kRead = {"gemm", "gemv", "exllama", "exllamav2"};
  if (std::find(kRead.begin(), kRead.end(), awq_version(finder)) == kRead.end()) {
    const io::JsonPlace config((finder.source().directory() / "config.json").string());
    throw Failure(config.field("quantization_config")
                      .field(quantization->find("version") ? "version" : "format")
                      .error("gemm or gemv", awq_version(finder), kUnquantised));
  }
}

std::vector<std::string> notes_on_quantization(const CheckpointSource& source) {
  const auto quantization = quantization_config(source);
  if (!quantization) return {};
  std::vector<std::string> notes;
  if (const std::string rounding = activations(*quantization, quantization->text("quant_method", ""));
      !rounding.empty()) {
    notes.push_back(cat("what comes into a product isn't rounded: the checkpoint's own tools round it (", rounding,
                        "), and so compute less exactly"));
  }
  if (quantization->find("kv_cache_scheme"))
    notes.emplace_back("the cache is as --kv_cache_dtype says: config.json's kv_cache_scheme isn't followed");
  return notes;
}

}  // namespace tern::checkpoint
