// Mixtures of data sets: the order that `datasets` has (script/golden.d/interleave.py), and what is refused.
#include "data/interleave.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/json.h"

namespace tern::data {
namespace {

TEST(Interleave, IsWhatDatasetsDrawsForTheSeed) {
  const io::Json made = io::read_json_file(std::string(TERN_TEST_DATA) + "/golden/interleave.json").value();
  for (const io::Json& one : made["cases"]) {
    Interleave options;
    std::vector<std::uint32_t> rows;
    for (const io::Json& p : one["p"]) options.probabilities.push_back(p.get<double>());
    for (const io::Json& count : one["rows"]) rows.push_back(count.get<std::uint32_t>());
    if (one["stopping_strategy"].text() == name(StoppingStrategy::all_exhausted)) {
      options.stopping = StoppingStrategy::all_exhausted;
    }
    ASSERT_TRUE(check_interleave(options, rows.size()).ok());
    const auto mixed = interleaved(rows, options, one["seed"].get<std::uint64_t>());
    std::string sets;
    std::uint64_t sum = 0;
    for (const auto& [set, row] : mixed) {
      sets += static_cast<char>('0' + set);
      sum += row;
    }
    EXPECT_EQ(sets, one["sets"].text()) << one.dump();
    EXPECT_EQ(mixed.back().first, one["last"][0].get<std::uint32_t>());
    EXPECT_EQ(mixed.back().second, one["last"][1].get<std::uint32_t>());
    EXPECT_EQ(sum, one["row_sum"].get<std::uint64_t>());
  }
}

TEST(Interleave, RefusesWhatIsNoMixture) {
  const auto refused = [](std::vector<double> p, StoppingStrategy stopping = StoppingStrategy::first_exhausted) {
    const Status status = check_interleave({std::move(p), stopping}, 2);
    return status.ok() ? std::string() : status.error().line();
  };
  EXPECT_EQ(refused({0.4, 0.6}), "");
  EXPECT_NE(refused({1.0}).find("2 data sets"), std::string::npos);
  EXPECT_NE(refused({0.4, 0.5}).find("0.9"), std::string::npos);
  EXPECT_NE(refused({-0.5, 1.5}), "");
  EXPECT_EQ(refused({0.0, 1.0}), "");
  EXPECT_NE(refused({0.0, 1.0}, StoppingStrategy::all_exhausted).find("never ends"), std::string::npos);
}

}  // namespace
}  // namespace tern::data
