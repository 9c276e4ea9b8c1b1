// The data and template flags as the data and text libraries take them; shared by the commands that read datasets.
#pragma once

#include <string>

#include "base/status.h"
#include "chat/model_text.h"
#include "cli/flags/arguments.h"
#include "data/chat_encoder.h"
#include "data/dataset.h"

namespace tern::cli {

// From --dataset, --val_dataset, --split_dataset_ratio, --data_seed, --dataset_num_proc, --strict, --columns, --system
// and --load_from_cache_file, those that the command has. Progress goes to stderr. Throws Failure.
[[nodiscard]] data::LoadOptions load_options(const Arguments& arguments);

// What --system says: the message, or the text of the file that it names; empty where it is not given.
[[nodiscard]] std::string system_message(const Arguments& arguments);

// Puts the template of --template, where given, in the place of the model's own. Throws Failure.
void apply_template(const Arguments& arguments, chat::ModelText& model);

// The template's variables as a JSON object, from --enable_thinking; empty where it is not given.
[[nodiscard]] std::string template_kwargs(const Arguments& arguments);

// From --max_length, --truncation_strategy, --loss_scale, --use_chat_template, --enable_thinking and
// --agent_template; `identity` is left to whoever knows the model. Throws Failure.
[[nodiscard]] data::ChatEncoderOptions encoder_options(const Arguments& arguments);

}  // namespace tern::cli
