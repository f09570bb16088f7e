// Structured outputs as JavaScript sees them: vocabularies, compiled grammars, matchers.
#pragma once
#include "../grammar/matcher.h"
#include "wrapped.h"

namespace anneal::addon {

class GrammarVocabulary {
 public:
  static constexpr Class kClass = kGrammarVocabularyClass;
  GrammarVocabulary(Js js, std::shared_ptr<const grammar::Vocabulary> vocabulary);
  const std::shared_ptr<const grammar::Vocabulary>& vocabulary() const { return vocabulary_; }
  napi_value size(const Arguments&);

 private:
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  ExternalMemory memory_;
};

class CompiledGrammar {
 public:
  static constexpr Class kClass = kCompiledGrammarClass;
  explicit CompiledGrammar(std::shared_ptr<grammar::Grammar> grammar) : grammar_(std::move(grammar)) {}
  napi_value matcher(const Arguments&);  // () -> GrammarMatcher

 private:
  std::shared_ptr<grammar::Grammar> grammar_;
};

class GrammarMatcher {
 public:
  static constexpr Class kClass = kGrammarMatcherClass;
  explicit GrammarMatcher(grammar::Matcher matcher) : matcher_(std::move(matcher)) {}
  const grammar::Matcher& matcher() const { return matcher_; }

  napi_value accept(const Arguments&);        // (token) -> boolean
  napi_value accept_bytes(const Arguments&);  // (bytes) -> boolean
  napi_value mask(const Arguments&);          // () -> Uint32Array
  napi_value complete(const Arguments&);      // getter
  napi_value finished(const Arguments&);      // getter
  napi_value steps(const Arguments&);         // getter
  napi_value forced(const Arguments&);        // () -> token or -1
  napi_value rewind(const Arguments&);        // (steps)
  napi_value clone(const Arguments&);         // () -> GrammarMatcher

 private:
  grammar::Matcher matcher_;
};

void define_grammar(Js js);
// grammarVocabulary(tokens, offsets, special, end) -> promise of a GrammarVocabulary
napi_value grammar_vocabulary(const Arguments& arguments);
// compileGrammar(vocabulary, program, budgets, client, cancellation?) -> promise of a CompiledGrammar
napi_value compile_grammar(const Arguments& arguments);

}  // namespace anneal::addon
