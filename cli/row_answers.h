// tern infer --val_dataset: the rows of files, answered.
#pragma once

#include "cli/flags/arguments.h"
#include "cli/result_writer.h"
#include "engine/llm.h"

namespace tern::cli {

// Answers the rows of --val_dataset, as many at once as `llm` has seats, and writes them in the rows' order; with
// --metric tells how good they are. With a file, a run that was stopped is gone on with (answered_rows.h). A row
// without an answer (too long, refused by the template) is a result row with its error, and counted at the end. Throws
// Failure: no rows, or stopped; with --strict also where a row had an error, once all are written.
void answer_rows(const Arguments& arguments, engine::LLM& llm, const engine::SamplingParams& sampling,
                 const ResultWriter::Options& results);

}  // namespace tern::cli
