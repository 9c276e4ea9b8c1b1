// BERT, RoBERTa and XLM-RoBERTa: encoders with learned positions and a layer norm after each sum (Devlin et al., 2018;
// Liu et al., 2019; Conneau et al., 2019). Of RoBERTa's kind positions are counted from behind the token of padding's.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture bert_architecture();
[[nodiscard]] Architecture roberta_architecture();
[[nodiscard]] Architecture xlm_roberta_architecture();

}  // namespace tern::models
