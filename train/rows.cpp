#include "train/rows.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "data/cached_dataset.h"

namespace tern::train {

std::shared_ptr<const data::RowEncoder> open_encoder(const Task& task, const session::Session& session,
                                                     const session::SessionOptions& opened,
                                                     data::ChatEncoderOptions& encoding) {
  const auto& text = *session.text;
  if (encoding.max_length == 0) {
    encoding.max_length =
        static_cast<std::uint32_t>(std::max<std::int64_t>(session.model.config.max_position_embeddings, 1));
  }
  encoding.identity = (opened.chat_template.empty() ? data::tokenizer_identity(session.path)
                                                    : data::tokenizer_identity(session.path, *text.chat_template))
                          .value();
  encoding.new_special_tokens = join(opened.new_special_tokens, " ");
  // A model that only looks at texts may have no chat template; one that answers needs it.
  if (task.is_pooled() && !text.chat_template) encoding.use_chat_template = false;
  return task_encoder(task, session.model.config,
                      data::ChatEncoder::create(text.tokenizer, text.chat_template, encoding).value());
}

Result<CachedSets> cache_datasets(CacheOptions options) {
  return catching([&] {
    std::error_code ignored;
    if (!options.replace && std::filesystem::exists(options.output_dir, ignored)) {
      throw Failure(usage_error(cat(options.output_dir.string(), " is there already"),
                                "choose another --output_dir, or give --exist_ok true"));
    }
    const auto session = session::open_text(options.session).value();
    options.encoder.channels = true;
    const auto encoder = open_encoder({}, *session, options.session, options.encoder);
    const data::LoadedData data = data::load_datasets(options.data, *encoder).value();
    for (const auto& report : data.reports) log_info(report.line());
    const data::Settings settings = data::row_settings(options.data, *encoder);
    CachedSets out;
    const auto write = [&](const data::EncodedDataset& dataset, const char* name, std::filesystem::path& folder) {
      if (dataset.size() == 0) return;
      folder = options.output_dir / name;
      data::write_cached_dataset(dataset, settings, folder).value();
    };
    write(data.train, "train", out.train);
    write(data.validation, "val", out.validation);
    out.train_samples = data.train.size();
    out.validation_samples = data.validation.size();
    return out;
  });
}

}  // namespace tern::train
