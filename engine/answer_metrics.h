// How close an answer is to its label: ROUGE (Lin, 2004) and BLEU (Papineni et al., 2002), as ms-swift's metric `rouge`
// takes them from the Python packages rouge and nltk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::engine {

// The words that are compared. Between blanks: letters and digits in a row (with a fraction and a percent sign), every
// Chinese character alone, what joins words (+ # & . _ % -) in a row, and any other character alone. Chinese
// characters are where ms-swift's jieba, which has a dictionary, gives whole words.
[[nodiscard]] std::vector<std::string> metric_words(std::string_view text);

// F-measures of ROUGE and BLEU over 1 to 4 words with NIST's smoothing, from 0 to 1.
struct AnswerScores {
  double rouge_1 = 0;
  double rouge_2 = 0;
  double rouge_l = 0;  // of sentences, which end at a full stop
  double bleu_4 = 0;
};

// All 0 where either has no word.
[[nodiscard]] AnswerScores score_answer(std::string_view answer, std::string_view label);

}  // namespace tern::engine
