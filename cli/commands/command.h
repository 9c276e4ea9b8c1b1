// How a command is written: one file `cli/commands/<name>.cpp` that defines `run_<name>`, declared here, and one row in
// cli/flags/command_table.cpp that names its flags and that function.
#pragma once

#include "cli/flags/arguments.h"

namespace tern::cli {

int run_app(const Arguments& arguments);
int run_bench(const Arguments& arguments);
int run_convert(const Arguments& arguments);
int run_deploy(const Arguments& arguments);
int run_devices(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_export(const Arguments& arguments);
int run_infer(const Arguments& arguments);
int run_inspect(const Arguments& arguments);
int run_inspect_data(const Arguments& arguments);
int run_launch(const Arguments& arguments);
int run_merge_lora(const Arguments& arguments);
int run_models(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_pt(const Arguments& arguments);
int run_rollout(const Arguments& arguments);
int run_score(const Arguments& arguments);
int run_selftest(const Arguments& arguments);
int run_sft(const Arguments& arguments);
int run_tokenize(const Arguments& arguments);
int run_topo(const Arguments& arguments);
int run_web_ui(const Arguments& arguments);

}  // namespace tern::cli
