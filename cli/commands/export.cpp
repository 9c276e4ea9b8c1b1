// tern export: a model merged, quantised or both.
#include <memory>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/merged_model.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "session/save_model.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

// What is written where it's one GGUF file: a --output_dir that names no such file is a folder of it.
fs::path gguf_target(const Arguments& arguments, const std::string& suffix) {
  const fs::path named = named_after(arguments, suffix + ".gguf");
  const auto given = arguments.maybe_string("output_dir");
  if (!given) return named;
  return fs::path(*given).extension() == ".gguf" ? fs::path(*given) : fs::path(*given) / named.filename();
}

// llama.cpp's types of so many bits.
std::string gguf_type(const Arguments& arguments) {
  if (const auto outtype = arguments.maybe_string("outtype")) {
    if (arguments.has("quant_bits"))
      throw Failure(usage_error("--outtype and --quant_bits cannot be used together", "drop one"));
    return *outtype;
  }
  const std::string bits = arguments.maybe_string("quant_bits").value_or("");
  if (bits == "4") return "q4_k";
  if (bits == "8") return "q8_0";
  throw Failure(usage_error(bits.empty() ? "--quant_method gguf needs to know how many bits a weight gets"
                                         : cat("tern writes no GGUF type of ", bits, " bits"),
                            "give --quant_bits 4 or 8, or an --outtype such as q4_1"));
}

void export_gguf(const Arguments& arguments, const fs::path& model) {
  const std::string type = gguf_type(arguments);
  const std::string suffix = arguments.has("outtype") ? cat("-", type) : cat("-gguf-int", arguments.string("quant_bits"));
  const fs::path target = gguf_target(arguments, suffix);
  std::error_code ignored;
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), ignored);
  write_gguf(arguments, model, target, type);
}

// --quant_method fp8, int8 and bnb: a directory whose numbers need no calibration.
void export_quantised(const Arguments& arguments, const fs::path& model) {
  const std::string method = arguments.string("quant_method");
  const std::string bits = arguments.maybe_string("quant_bits").value_or(method == "bnb" ? "4" : "8");
  if (bits != "8" && !(method == "bnb" && bits == "4"))
    throw Failure(usage_error(cat("--quant_method ", method, " has ", method == "bnb" ? "4 or " : "", "8 bits, not ", bits),
                              "change --quant_bits"));
  session::QuantiseModelOptions options;
  options.write.is_bnb = method == "bnb";
  options.write.quantise.method = method == "fp8" ? models::QuantiseMethod::fp8
                                  : bits == "8"   ? models::QuantiseMethod::int8
                                                  : models::QuantiseMethod::nf4;
  options.write.quantise.double_quant = arguments.boolean("bnb_4bit_use_double_quant");
  options.write.max_shard_size = static_cast<std::uint64_t>(arguments.integer("max_shard_size"));
  options.adapters = adapter_paths(arguments);
  options.rope = rope_override(arguments);
  options.new_special_tokens = new_special_tokens(arguments);
  options.dtype = torch_dtype(arguments);
  options.replace = arguments.boolean("exist_ok");
  options.check = merge_check(arguments, model);
  install_interrupt_handler();
  std::unique_ptr<Progress> progress;
  options.write.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (!progress) progress = std::make_unique<Progress>("quantising", total, "parameters", is_quiet(arguments));
    progress->update(done);
    if (interrupted()) throw Failure(interrupted_error("the export was stopped, and nothing was written", "run it again"));
  };
  const std::string suffix = cat("-", method, arguments.has("quant_bits") ? cat("-int", bits) : "");
  const fs::path target = arguments.maybe_string("output_dir").value_or(named_after(arguments, suffix).string());
  const auto report = session::quantise_model(model, target, options).value();
  if (progress) progress->finish();
  if (!report.left_plain.empty()) {
    log_info(cat(report.left_plain.size(), " weights of experts that are kept in one tensor are not quantised, such as ",
                 report.left_plain.front()));
  }
  log_info(cat("wrote ", target.string(), ": ", report.quantised, " layers in ", method, " of ", bits, " bits"));
}

}  // namespace

int run_export(const Arguments& given) {
  const bool merges = given.boolean("merge_lora");
  const bool quantises = given.has("quant_method");
  if (!merges && !quantises) {
    throw Failure(usage_error("tern export has nothing to do",
                              "give --merge_lora true with --adapters, or --quant_method and a model"));
  }
  if (merges && given.list("adapters").empty())
    throw Failure(usage_error("--merge_lora needs an adapter", "give --adapters and the folder of a checkpoint"));
  if (!merges && !given.list("adapters").empty())
    throw Failure(usage_error("an adapter is only exported as part of its model", "give --merge_lora true"));
  const Arguments arguments = with_training_arguments(given);
  const fs::path model = model_path(arguments, base_model(arguments));
  if (quantises && given.string("quant_method") == "gguf") {
    export_gguf(arguments, model);
  } else if (quantises) {
    export_quantised(arguments, model);
  } else {
    const std::string ending = arguments.has("outtype") ? "-merged.gguf" : "-merged";
    write_merged(arguments, model,
                 arguments.maybe_string("output_dir").value_or(named_after(arguments, ending).string()));
  }
  return 0;
}

}  // namespace tern::cli
