// tern selftest --model: a model's own ops against the oracle.
#pragma once

#include "cli/flags/arguments.h"

namespace tern::cli {

// Trains two steps of an adapter and generates some tokens, each op checked as it runs; prints a table and names the
// first op that differs, its case kept in a file for --replay. Gives 0; a difference is thrown as Failure.
int check_model(const Arguments& arguments);

}  // namespace tern::cli
