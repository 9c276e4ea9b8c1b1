#include "cli/cached_rows.h"

#include "base/log.h"
#include "base/strings.h"
#include "cli/data_setup.h"
#include "cli/merged_model.h"
#include "cli/session_flags.h"
#include "train/rows.h"

namespace tern::cli {

void export_cached_dataset(const Arguments& arguments) {
  train::CacheOptions options;
  options.session = session_options(arguments, arguments.string("model"));
  options.data = load_options(arguments);
  options.encoder = encoder_options(arguments);
  options.output_dir =
      arguments.maybe_string("output_dir").value_or(named_after(arguments, "-cached_dataset").string());
  options.replace = arguments.boolean("exist_ok");
  const train::CachedSets written = train::cache_datasets(std::move(options)).value();
  if (!written.train.empty()) {
    log_info(cat("wrote ", written.train_samples, " samples: --cached_dataset ", written.train.string()));
  }
  if (!written.validation.empty()) {
    log_info(cat("wrote ", written.validation_samples, " samples: --cached_val_dataset ", written.validation.string()));
  }
}

}  // namespace tern::cli
