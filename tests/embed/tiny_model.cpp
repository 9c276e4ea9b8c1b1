// Writes the tiny model of tests/e2e and rows that it can learn: tiny_model DIRECTORY
#include "tests/support/tiny_model.h"

#include <filesystem>
#include <fstream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path directory = argv[1];
  tern::e2e::write_tiny_model(directory / "model");
  std::ofstream rows(directory / "rows.jsonl");
  rows << tern::e2e::sums(32);
  return rows.flush() ? 0 : 1;
}
