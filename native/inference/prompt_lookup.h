// Guesses at the tokens that follow a sequence, from the sequence itself (prompt lookup): where its last tokens stood
// before, what followed them then may follow again; and where a guess was wrong in one token, it may be right behind
// it. Texts that quote, edit or repeat what they have read are guessed well; how well is learned from every token that
// comes, whether its guess was used or not.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace anneal::inference {

class PromptLookup {
 public:
  static constexpr int kMinMatch = 3;   // last tokens that must have stood before, for a place to be found
  static constexpr int kMaxDraft = 15;  // tokens guessed at most: with the one before them a tile of rows

  explicit PromptLookup(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}

  // The tokens that may follow, in order; empty: nothing like the end has come before. Good until the next call.
  std::span<const int32_t> draft();
  // Where what it repeats begins, in the tokens given and those appended.
  int32_t place() const { return place_; }
  // How many tokens of that draft are worth computing, of `most`, where each further one makes a step longer by
  // `row_cost` of it and `others` tokens come of it besides those of this sequence.
  int worthwhile(int most, double row_cost, int others) const;
  // Appends tokens that have come.
  void append(std::span<const int32_t> tokens);

 private:
  // How often guesses have held, those behind matches of about one length.
  struct Record {
    double held = 1, tried = 2;
  };
  static size_t record_of(int match);
  void index();
  // Of the last tokens, how many stood before `place` as well.
  int match_before(int32_t place) const;

  std::vector<int32_t> tokens_;
  // By a hash of kMinMatch tokens in a row, where the latest ones end; and for every place, where those of the same
  // hash end before it. -1: nowhere.
  std::vector<int32_t> latest_;  // [a power of two]
  std::vector<int32_t> before_;  // [tokens indexed]
  std::array<Record, 5> records_{};
  std::vector<int32_t> draft_;
  int32_t place_ = -1;  // as place(); once tokens have been appended, what lies behind as many
  int match_ = 0;       // of the last tokens, those that stand before it as well
};

// What a row more costs in a step that few rows share, learned from the steps that ran.
class RowCost {
 public:
  // A step of `rows` rows that were needed and `drafted` further ones took so long.
  void observe(int rows, int drafted, double seconds);
  // Of a step's time without it.
  double share() const { return share_; }

 private:
  static constexpr double kAssumed = 0.1;
  double share_ = kAssumed;
  double base_ = 0;  // seconds of a step without drafts
  int base_rows_ = 0;
};

}  // namespace anneal::inference
