#include "cli/session_flags.h"

#include <charconv>
#include <sstream>

#include "base/dtype.h"
#include "base/strings.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "io/mapped_file.h"

namespace tern::cli {
namespace {

std::optional<graph::Fallback> fallback_policy(const Arguments& arguments) {
  if (!arguments.has("fallback")) return std::nullopt;
  const std::string& word = arguments.string("fallback");
  if (word == "allow") return graph::Fallback::allow;
  return word == "warn" ? graph::Fallback::warn : graph::Fallback::forbid;
}

// KEY=VALUE words, or several in one with commas between them; a piece without = goes on with the last value, which may
// be a list itself.
accel::DeviceOptions device_options(const Arguments& arguments) {
  accel::DeviceOptions options;
  for (const std::string& word : arguments.list("device_options")) {
    bool continues = false;
    for (const std::string_view piece : split(word, ',')) {
      const auto equals = piece.find('=');
      if (equals != std::string_view::npos && equals > 0) {
        options.emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
      } else if (continues) {
        options.back().second += cat(",", piece);
      } else {
        throw Failure(usage_error(cat("--device_options ", word, " is not KEY=VALUE"),
                                  "write it like memory_limit=4000000000; tern devices lists the keys"));
      }
      continues = true;
    }
  }
  return options;
}

// --quant_method and what goes with it; bnb is bitsandbytes, of 4 bits unless told otherwise.
std::optional<models::QuantiseOptions> quantisation(const Arguments& arguments) {
  if (!arguments.has("quant_method")) return std::nullopt;
  const std::string& method = arguments.string("quant_method");
  const bool is_bnb = method == "bnb";
  const std::string bits = arguments.maybe_string("quant_bits").value_or(is_bnb ? "4" : "8");
  if (!is_bnb && bits != "8")
    throw Failure(usage_error(cat("--quant_method ", method, " has 8 bits, not ", bits), "drop --quant_bits"));
  models::QuantiseOptions options;
  options.method = method == "fp8" ? models::QuantiseMethod::fp8
                   : bits == "8"   ? models::QuantiseMethod::int8
                                   : models::QuantiseMethod::nf4;
  options.double_quant = arguments.boolean("bnb_4bit_use_double_quant");
  return options;
}

// --activation_dtype, or ms-swift's words for it.
std::optional<tern_dtype> activation_dtype(const Arguments& arguments) {
  if (arguments.has("bf16") && arguments.boolean("bf16")) return TERN_BF16;
  if (arguments.has("fp16") && arguments.boolean("fp16")) return TERN_F16;
  if (!arguments.has("activation_dtype")) return std::nullopt;
  return dtype_from_name(arguments.string("activation_dtype"));
}

// --profile_steps: `2-4`, or `3`.
accel::TraceOptions trace_options(const std::string& steps) {
  accel::TraceOptions options;
  const char* const end = steps.data() + steps.size();
  auto [at, failed] = std::from_chars(steps.data(), end, options.first);
  options.last = options.first;
  if (failed == std::errc() && at != end && *at == '-') {
    const auto second = std::from_chars(at + 1, end, options.last);
    at = second.ptr;
    failed = second.ec;
  }
  if (failed == std::errc() && at == end && options.first >= 1 && options.last >= options.first) return options;
  throw Failure(usage_error(cat("--profile_steps ", steps, " names no steps"), "write it like 2-4, or 1"));
}

}  // namespace

session::RuntimeOptions runtime_options(const Arguments& arguments) {
  session::RuntimeOptions options;
  options.device = arguments.string("device");
  options.device_options = device_options(arguments);
  options.backend_file = arguments.maybe_string("backend").value_or("");
  if (arguments.has("threads")) options.num_threads = static_cast<int>(arguments.integers("threads").front());
  options.fallback = fallback_policy(arguments);
  options.reference_kernels =
      arguments.string("kernels") == "reference" || !arguments.boolean("enable_npu_model_patch");
  if (arguments.has("profile")) {
    options.trace_file = arguments.string("profile");
    options.trace = trace_options(arguments.string("profile_steps"));
  }
  return options;
}

std::vector<std::filesystem::path> backend_files(const Arguments& arguments) {
  auto files = accel::find_backend_files();
  if (const auto named = arguments.maybe_string("backend")) files.insert(files.begin(), *named);
  return files;
}

session::HubOptions hub_options(const Arguments& arguments) {
  session::HubOptions options;
  if (arguments.has("use_hf")) options.use_hf = arguments.boolean("use_hf");
  if (arguments.has("hub_token")) options.token = arguments.string("hub_token");
  if (arguments.has("model_revision")) options.revision = arguments.string("model_revision");
  options.progress = [quiet = is_quiet(arguments), bar = std::shared_ptr<Progress>()](std::uint64_t done,
                                                                                      std::uint64_t total) mutable {
    if (!bar) {
      install_interrupt_handler();
      bar = std::make_shared<Progress>("fetching", total, "B", quiet);
    }
    bar->update(done);
    if (done == total) bar->finish();
    return !interrupted();
  };
  return options;
}

std::string model_path(const Arguments& arguments, const std::string& model) {
  return session::resolve_model(model, hub_options(arguments)).value();
}

session::SessionOptions session_options(const Arguments& arguments, const std::string& model) {
  session::SessionOptions options;
  options.runtime = runtime_options(arguments);
  options.model = model;
  options.hub = hub_options(arguments);
  options.mmproj = arguments.maybe_string("mmproj").value_or("");
  if (arguments.has("task_type") && arguments.string("task_type") != "causal_lm") options.heads = models::Heads::any;
  options.label_head = label_head(arguments);
  if (arguments.has("model_type")) options.model_type = arguments.string("model_type");
  if (arguments.has("template")) options.chat_template = arguments.string("template");
  options.new_special_tokens = new_special_tokens(arguments);
  options.rope = rope_override(arguments);
  options.dtype = torch_dtype(arguments);
  options.quantise = quantisation(arguments);
  options.activations = activation_dtype(arguments);
  options.int8 = arguments.has("dynamic_quantization") && arguments.string("dynamic_quantization") == "int8";
  return options;
}

std::optional<models::LabelHead> label_head(const Arguments& arguments) {
  if (!arguments.has("task_type")) return std::nullopt;
  const std::string& task = arguments.string("task_type");
  const std::vector<std::string> none;
  const auto& adapters = arguments.has("adapters") ? arguments.list("adapters") : none;
  const bool trains = arguments.has("max_positive_samples");
  if (task == "seq_cls") {
    // A model that answers has its head already, unless somebody says otherwise.
    const bool is_told = arguments.has("num_labels") || arguments.has("problem_type");
    if (!trains && adapters.empty() && !is_told) return std::nullopt;
    return models::LabelHead{arguments.maybe_integer("num_labels").value_or(0),
                             arguments.maybe_string("problem_type").value_or("")};
  }
  if (task != "reranker") return std::nullopt;
  // A language model reranks by its own words, unless it is to learn to by a head, or an adapter brings one.
  const bool has_head =
      !adapters.empty() && models::read_adapter_config(adapters.front()).value().task_type == models::kClassification;
  if (!trains && !has_head) return std::nullopt;
  return models::LabelHead{1, ""};
}

std::vector<std::string> new_special_tokens(const Arguments& arguments) {
  std::vector<std::string> tokens;
  if (!arguments.has("new_special_tokens")) return tokens;
  for (const std::string& word : arguments.list("new_special_tokens")) {
    if (!word.ends_with(".txt")) {
      tokens.push_back(word);
      continue;
    }
    std::istringstream text(io::read_text_file(word).value());
    for (std::string token; text >> token;) tokens.push_back(token);
  }
  return tokens;
}

models::RopeOverride rope_override(const Arguments& arguments) {
  models::RopeOverride wanted;
  if (!arguments.has("rope_scaling")) return wanted;
  wanted.scaling = arguments.string("rope_scaling");
  wanted.max_model_len = arguments.maybe_integer("max_model_len").value_or(0);
  return wanted;
}

bool is_quiet(const Arguments& arguments) { return arguments.maybe_boolean("quiet").value_or(false); }

std::optional<tern_dtype> torch_dtype(const Arguments& arguments) {
  if (!arguments.has("torch_dtype")) return std::nullopt;
  return dtype_from_name(arguments.string("torch_dtype"));
}

std::unique_ptr<session::Session> open_session(const Arguments& arguments, const std::string& model) {
  return session::open_session(session_options(arguments, model)).value();
}

std::function<void(std::uint64_t, std::uint64_t)> weight_progress(const Arguments& arguments) {
  if (is_quiet(arguments) || !stderr_is_terminal()) return {};
  return [bar = std::shared_ptr<Progress>()](std::uint64_t done, std::uint64_t total) mutable {
    if (!bar) bar = std::make_shared<Progress>("loading", total, "B");
    bar->update(done);
    if (done == total) bar->finish();
  };
}

void load_weights(session::Session& session, const Arguments& arguments, const models::LoadOptions& options) {
  models::LoadOptions with_progress = options;
  with_progress.progress = weight_progress(arguments);
  session::load_weights(session, with_progress).value();
}

void require_one_adapter(const Arguments& arguments) {
  const auto& adapters = arguments.list("adapters");
  if (adapters.size() <= 1) return;
  throw Failure(usage_error(cat("--adapters takes one adapter here, not ", adapters.size()),
                            "merge the others first with tern merge-lora"));
}

}  // namespace tern::cli
