// The scores of a Unigram tokenizer are those that Hugging Face's tokenizers computes with, error and all; the pairs
// were printed by tokenizers 0.23.3 (Tokenizer.from_str(json), then to_str()).
#include "tokenizer/serde_number.h"

#include <gtest/gtest.h>

namespace tern::tokenizer {
namespace {

TEST(SerdeNumber, IsWhatTokenizersHasInMemory) {
  const struct {
    double in_file;
    double in_memory;
  } table[] = {{-0.43561181362301915, -0.4356118136230191},
               {-12.563669634938593, -12.563669634938591},
               {-9.634415443986683, -9.634415443986684},
               {-1.8133493970870962, -1.813349397087096},
               {-3.5, -3.5},
               {0.0, 0.0},
               {-17.0, -17.0},
               {-1e-07, -1e-07},
               {-0.47274908866546683, -0.4727490886654668},
               {-57.402273528956236, -57.40227352895624},
               {-10.811930596651731, -10.811930596651733},
               {-37.675121769614236, -37.67512176961424},
               {-97.77973164486353, -97.77973164486352},
               {-0.009633055803862573, -0.009633055803862572},
               {-1.0487172582949256e-07, -1.0487172582949257e-07},
               {-0.010184169263187149, -0.010184169263187147}};
  for (const auto& row : table) EXPECT_EQ(serde_number(row.in_file), row.in_memory) << row.in_file;
  EXPECT_EQ(serde_number(12.563669634938593), 12.563669634938591);
}

}  // namespace
}  // namespace tern::tokenizer
