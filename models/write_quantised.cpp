#include "models/write_quantised.h"

#include <algorithm>
#include <cstring>

#include "base/dtype.h"
#include "base/nf4.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "io/json.h"
#include "models/stored_tensors.h"

namespace tern::models {
namespace {

using Json = io::Json;

constexpr std::int64_t kGrain = 1 << 18;        // elements that are worth a thread
constexpr std::size_t kStateBytes = 256;        // of nf4's description, which ends in blanks
constexpr std::int64_t kNf4Block = 64, kF8Block = 128;
constexpr std::string_view kWeight = ".weight";

std::int64_t elements(const StoredTensor& tensor) {
  return tensor.sizes.matrices * tensor.sizes.rows * tensor.sizes.columns;
}

bool is_linear(const StoredTensor& tensor) {
  return std::all_of(tensor.rows.begin(), tensor.rows.end(), [](const auto& some) { return some.spec->is_linear; });
}

// One matrix under a module's own name: what quantisers replace.
bool is_quantised(const StoredTensor& tensor) {
  return is_linear(tensor) && !tensor.is_transposed && tensor.shape.size() == 2 && tensor.sizes.matrices == 1 &&
         tensor.name.ends_with(kWeight);
}

std::string module_of_tensor(const std::string& name) { return name.substr(0, name.size() - kWeight.size()); }

class QuantisedWriter {
 public:
  QuantisedWriter(MergedWeights& weights, const WriteQuantisedOptions& options)
      : options_(options),
        stored_(stored_tensors(weights.specs(), Form::hugging_face)),
        reader_([&weights](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
          weights.read_rows(spec, first, count, spec.hugging_face, values);
        }) {}

  QuantisedReport run(const std::filesystem::path& directory) {
    QuantisedReport report;
    std::vector<checkpoint::TensorSpec> specs;
    std::uint64_t total = 0, done = 0;
    for (const StoredTensor& tensor : stored_) {
      declare(tensor, specs, report);
      total += static_cast<std::uint64_t>(elements(tensor));
    }
    report.quantization_config = io::write_json(config());
    checkpoint::SafetensorsWriteOptions write;
    write.max_shard_size = options_.max_shard_size;
    auto writer = checkpoint::SafetensorsWriter::create(directory, specs, write).value();
    for (const StoredTensor& tensor : stored_) {
      const std::vector<float> values = read(tensor);
      if (is_quantised(tensor)) {
        for (const auto& [name, bytes] : planes(tensor, values)) writer.write(name, bytes).value();
      } else {
        writer.write(tensor.name, rounded(tensor.name, values, plain_dtype(tensor))).value();
      }
      done += static_cast<std::uint64_t>(elements(tensor));
      if (options_.progress) options_.progress(done, total);
    }
    (void)writer.finish().value();
    return report;
  }

 private:
  using Planes = std::vector<std::pair<std::string, std::vector<std::byte>>>;

  // A buffer keeps its precision.
  [[nodiscard]] tern_dtype plain_dtype(const StoredTensor& tensor) const {
    return tensor.rows.front().spec->is_buffer ? TERN_F32 : options_.dtype;
  }

  std::vector<float> read(const StoredTensor& tensor) {
    std::vector<float> values(static_cast<std::size_t>(elements(tensor)));
    const std::int64_t width = tensor.shape.back();
    pool_.parallel_for(elements(tensor) / width, std::max<std::int64_t>(kGrain / width, 1),
                       [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                         reader_.read_rows(tensor, begin, end - begin,
                                           std::span(values).subspan(static_cast<std::size_t>(begin * width),
                                                                     static_cast<std::size_t>((end - begin) * width)));
                       });
    return values;
  }

  // The tensors of the file, in the order in which they are written.
  void declare(const StoredTensor& tensor, std::vector<checkpoint::TensorSpec>& specs, QuantisedReport& report) {
    if (!is_quantised(tensor)) {
      specs.push_back({tensor.name, std::string(dtype_info(plain_dtype(tensor)).safetensors), tensor.shape});
      const bool is_matrix = tensor.shape.size() >= 2 && tensor.name.ends_with(kWeight) &&
                             tensor.name.find("embed") == std::string::npos;
      if (is_matrix) plain_modules_.push_back(module_of_tensor(tensor.name));
      if (is_linear(tensor)) report.left_plain.push_back(tensor.name);
      return;
    }
    ++report.quantised;
    const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    const std::string& name = tensor.name;
    switch (options_.quantise.method) {
      case QuantiseMethod::fp8:
        specs.push_back({name, "F8_E4M3", tensor.shape});
        specs.push_back({name + "_scale_inv",
                         "F32",
                         {(rows + kF8Block - 1) / kF8Block, (columns + kF8Block - 1) / kF8Block}});
        return;
      case QuantiseMethod::int8:
        specs.push_back({name, "I8", tensor.shape});
        if (!options_.is_bnb) return specs.push_back({name + "_scale", "F32", {rows, 1}});
        specs.push_back({module_of_tensor(name) + ".SCB", "F32", {rows}});
        specs.push_back({module_of_tensor(name) + ".weight_format", "U8", {}});
        return;
      case QuantiseMethod::nf4:
        return declare_nf4(name, rows * columns, specs);
    }
  }

  void declare_nf4(const std::string& name, std::int64_t count, std::vector<checkpoint::TensorSpec>& specs) const {
    const std::int64_t blocks = (count + kNf4Block - 1) / kNf4Block;
    specs.push_back({name, "U8", {(count + 1) / 2, 1}});
    specs.push_back({name + ".absmax", options_.quantise.double_quant ? "U8" : "F32", {blocks}});
    specs.push_back({name + ".quant_map", "F32", {16}});
    if (options_.quantise.double_quant) {
      specs.push_back({name + ".nested_absmax", "F32", {(blocks + kNf4ScaleLevels - 1) / kNf4ScaleLevels}});
      specs.push_back({name + ".nested_quant_map", "F32", {kNf4ScaleLevels}});
    }
    specs.push_back(
        {name + ".quant_state.bitsandbytes__nf4", "U8", {static_cast<std::int64_t>(kStateBytes)}});
  }

  [[nodiscard]] Planes planes(const StoredTensor& tensor, std::span<const float> values) const {
    const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    const std::vector<std::byte> all = quantised_planes(options_.quantise, rows, columns, values);
    std::size_t at = 0;
    const auto take = [&](std::size_t bytes) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
      at += bytes;
      return std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    };
    const std::string& name = tensor.name;
    Planes out;
    if (options_.quantise.method == QuantiseMethod::nf4) return nf4_planes(tensor, take);
    out.emplace_back(name, take(values.size()));
    std::vector<std::byte> scales = take(all.size() - at);
    if (options_.quantise.method == QuantiseMethod::fp8) {
      out.emplace_back(name + "_scale_inv", std::move(scales));
    } else if (!options_.is_bnb) {
      out.emplace_back(name + "_scale", std::move(scales));
    } else {
      for (std::size_t i = 0; i < scales.size(); i += sizeof(float)) {  // bitsandbytes keeps the largest magnitude
        float scale = 0;
        std::memcpy(&scale, scales.data() + i, sizeof(float));
        scale *= 127.0F;
        std::memcpy(scales.data() + i, &scale, sizeof(float));
      }
      out.emplace_back(module_of_tensor(name) + ".SCB", std::move(scales));
      out.emplace_back(module_of_tensor(name) + ".weight_format", std::vector<std::byte>(1));
    }
    return out;
  }

  template <typename Take>
  [[nodiscard]] Planes nf4_planes(const StoredTensor& tensor, const Take& take) const {
    const std::string& name = tensor.name;
    const auto count = static_cast<std::size_t>(elements(tensor));
    const std::size_t blocks = (count + kNf4Block - 1) / kNf4Block;
    const auto levels = std::as_bytes(std::span(kNf4Levels));
    Json state = {{"quant_type", "nf4"},
                  {"blocksize", kNf4Block},
                  {"dtype", std::string(dtype_info(options_.dtype).torch)},
                  {"shape", tensor.shape}};
    Planes out;
    out.emplace_back(name, take((count + 1) / 2));
    if (options_.quantise.double_quant) {
      out.emplace_back(name + ".absmax", take(blocks));
      std::vector<std::byte> scale_levels = take(kNf4ScaleLevels * sizeof(float));
      float offset = 0;
      std::memcpy(&offset, take(sizeof(float)).data(), sizeof(float));
      out.emplace_back(name + ".nested_absmax",
                       take((blocks + kNf4ScaleLevels - 1) / kNf4ScaleLevels * sizeof(float)));
      out.emplace_back(name + ".nested_quant_map", std::move(scale_levels));
      state["nested_blocksize"] = kNf4ScaleLevels;
      state["nested_dtype"] = "float32";
      state["nested_offset"] = offset;
    } else {
      out.emplace_back(name + ".absmax", take(blocks * sizeof(float)));
    }
    out.emplace_back(name + ".quant_map", std::vector<std::byte>(levels.begin(), levels.end()));
    std::string text = state.dump();
    if (text.size() > kStateBytes) throw std::logic_error(cat("tensor ", name, ": a longer description of nf4"));
    text.resize(kStateBytes, ' ');
    const auto bytes = std::as_bytes(std::span(text));
    out.emplace_back(name + ".quant_state.bitsandbytes__nf4", std::vector<std::byte>(bytes.begin(), bytes.end()));
    return out;
  }

  // "quantization_config", as the library that reads it has it.
  [[nodiscard]] Json config() const {
    std::vector<std::string> plain = plain_modules_;
    if (std::find(plain.begin(), plain.end(), "lm_head") == plain.end()) plain.emplace_back("lm_head");
    if (options_.quantise.method == QuantiseMethod::fp8) {
      return {{"quant_method", "fp8"},
              {"activation_scheme", "dynamic"},
              {"weight_block_size", {kF8Block, kF8Block}},
              {"modules_to_not_convert", plain}};
    }
    if (options_.quantise.method == QuantiseMethod::int8 && !options_.is_bnb) {
      const auto scheme = [](const char* strategy, bool dynamic) {
        return Json{{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", strategy}, {"dynamic", dynamic}};
      };
      return {{"quant_method", "compressed-tensors"},
              {"format", "int-quantized"},
              {"quantization_status", "compressed"},
              {"config_groups",
               {{"group_0",
                 {{"targets", {"Linear"}},
                  {"weights", scheme("channel", false)},
                  {"input_activations", scheme("token", true)}}}}},
              {"ignore", plain}};
    }
    const bool in_4bit = options_.quantise.method == QuantiseMethod::nf4;
    return {{"quant_method", "bitsandbytes"},
            {"load_in_4bit", in_4bit},
            {"load_in_8bit", !in_4bit},
            {"llm_int8_threshold", 6.0},
            {"llm_int8_skip_modules", plain},
            {"bnb_4bit_quant_type", "nf4"},
            {"bnb_4bit_use_double_quant", options_.quantise.double_quant},
            {"bnb_4bit_compute_dtype", std::string(dtype_info(options_.dtype).torch)},
            {"bnb_4bit_quant_storage", "uint8"}};
  }

  const WriteQuantisedOptions& options_;
  const std::vector<StoredTensor> stored_;
  StoredTensorReader reader_;
  ThreadPool pool_;
  std::vector<std::string> plain_modules_;  // with a matrix that stays as it is
};

}  // namespace

QuantisedReport write_quantised(MergedWeights& weights, const std::filesystem::path& directory,
                                const WriteQuantisedOptions& options) {
  return QuantisedWriter(weights, options).run(directory);
}

}  // namespace tern::models
