// The lines of tests/data/configs: config.json as models are published, and what transformers reads in it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/json_field.h"
#include "models/config.h"
#include "tests/support/parsed_json.h"
#include "tests/support/temp_dir.h"

namespace tern::models {

struct PublishedRow {
  io::Json json;
  ModelConfig config;  // by config.json alone
  [[nodiscard]] io::JsonField field() const { return {json, "published.jsonl", "see script/golden.d/configs.py"}; }
  [[nodiscard]] io::JsonField expected() const { return field().at("transformers"); }
};

inline std::vector<io::Json> lines_of(const std::string& file) {
  std::ifstream lines(std::filesystem::path(TERN_TEST_DATA) / "configs" / file);
  std::vector<io::Json> out;
  for (std::string line; std::getline(lines, line);) out.push_back(test::parsed_json(line));
  return out;
}

inline std::vector<PublishedRow> published_rows() {
  const test::TempDir scratch;
  std::vector<PublishedRow> rows;
  for (io::Json& line : lines_of("published.jsonl")) {
    PublishedRow row{std::move(line), {}};
    scratch.write("config.json", row.field().at("config").json().dump());
    auto config = read_config(checkpoint::CheckpointSource::open_config(scratch.path()).value());
    EXPECT_TRUE(config.ok()) << row.field().text("model", "") << ": " << config.error().line();
    if (config.ok()) row.config = std::move(*config);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tern::models
