// tern inspect-data: what a dataset holds, and what of it would be learned.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/data_setup.h"
#include "cli/session_flags.h"
#include "data/inspect.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

constexpr std::uint32_t kPageSamples = 8;  // shown in the page where --sample names none

std::size_t terminal_width() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? size.ws_col : 100;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw Failure(io::write_error(path, errno));
  log_info(cat("wrote ", path));
}

}  // namespace

int run_inspect_data(const Arguments& arguments) {
  if (!arguments.has("model")) {
    throw Failure(usage_error("tern inspect-data needs a model, whose tokenizer and template decide what is learned",
                              "for example --model smollm2-135m"));
  }
  data::LoadOptions options = load_options(arguments);
  options.needs_supervision = false;  // what is missing is seen here
  const std::string path = model_path(arguments, arguments.string("model"));
  chat::ModelText model = chat::load_model_text(path).value();
  apply_template(arguments, model);
  data::ChatEncoderOptions encoding = encoder_options(arguments);
  encoding.identity = (arguments.has("template") ? data::tokenizer_identity(path, *model.chat_template)
                                                 : data::tokenizer_identity(path))
                          .value();
  const auto encoder = data::ChatEncoder::create(model.tokenizer, model.chat_template, encoding).value();
  const data::LoadedData loaded = data::load_datasets(options, *encoder).value();
  std::uint32_t packing_length = 0;
  for (const auto* name : {"max_length", "packing_length"}) {
    if (arguments.has(name)) packing_length = static_cast<std::uint32_t>(arguments.integer(name));
  }
  const data::Inspection inspection = data::inspect(loaded.train, loaded.reports, packing_length);

  std::vector<data::ShownSample> shown;
  const auto show = [&](std::uint32_t id) { return data::show(loaded.train, id, model.tokenizer); };
  if (arguments.has("sample")) {
    const std::int64_t id = arguments.integer("sample");
    if (id >= static_cast<std::int64_t>(loaded.train.size())) {
      throw Failure(
          usage_error(cat("--sample is ", id, ", and there are ", loaded.train.size(), " samples, counted from 0"),
                      "give a lower number"));
    }
    shown.push_back(show(static_cast<std::uint32_t>(id)));
  }
  if (arguments.has("html")) {
    auto page = shown;
    const std::uint32_t more = shown.empty() ? std::min(kPageSamples, loaded.train.size()) : 0;
    for (std::uint32_t id = 0; id < more; ++id) page.push_back(show(id));
    write_file(arguments.string("html"), data::to_html(inspection, page));
  }
  if (arguments.has("svg")) write_file(arguments.string("svg"), data::to_svg(inspection));
  if (arguments.boolean("json")) {
    std::puts(data::to_json(inspection, shown).c_str());
    return 0;
  }
  std::fputs(data::to_text(inspection, terminal_width()).c_str(), stdout);
  const bool colour = ::isatty(STDOUT_FILENO) == 1;
  for (const auto& sample : shown) std::fputs(cat("\n", data::to_text(sample, colour)).c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
