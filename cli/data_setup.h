// The data and template flags as the data library takes them; shared by the commands that read datasets.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "data/chat_encoder.h"
#include "data/dataset.h"

namespace tern::cli {

// From --dataset, --val_dataset, --split_dataset_ratio, --data_seed, --dataset_num_proc, --strict, --columns, --system
// and
// --load_from_cache_file, those that the command has. Progress goes to stderr. Throws Failure.
[[nodiscard]] data::LoadOptions load_options(const Arguments& arguments);

// The tokenizer, template and encoder of the model at `path`, from --template, --max_length, --truncation_strategy,
// --loss_scale, --use_chat_template and --enable_thinking. `longest` stands where --max_length is not given; 0: no
// limit. Throws Failure.
struct Encoding {
  text::Tokenizer tokenizer;
  std::shared_ptr<const data::ChatEncoder> encoder;
};
[[nodiscard]] Encoding make_encoding(const Arguments& arguments, const std::string& path, std::uint32_t longest);

}  // namespace tern::cli
