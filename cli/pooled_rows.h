// tern infer --task_type embedding, reranker or seq_cls: what is made of the rows of files as a whole.
#pragma once

#include "cli/flags/arguments.h"
#include "cli/result_writer.h"
#include "engine/llm.h"

namespace tern::cli {

// Makes of each row of --val_dataset what --task_type says, as many at once as `llm` has seats, and writes them in the
// rows' order; with --metric tells how many labels are right. A row of which nothing can be made is a result row with
// its error, and counted at the end. A run that was stopped is gone on with. Throws Failure as answer_rows does, and
// (data) for a model of another kind.
void pool_rows(const Arguments& arguments, engine::LLM& llm, const ResultWriter::Options& results);

}  // namespace tern::cli
