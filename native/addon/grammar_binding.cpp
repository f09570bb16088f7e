#include "grammar_binding.h"

#include <algorithm>

namespace anneal::addon {

// ---- vocabulary

GrammarVocabulary::GrammarVocabulary(Js js, std::shared_ptr<const grammar::Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)), memory_(js) {
  memory_.set(int64_t(vocabulary_->memory()));
}

napi_value GrammarVocabulary::size(const Arguments& arguments) { return arguments.js.number(vocabulary_->size()); }

napi_value grammar_vocabulary(const Arguments& arguments) {
  auto environment = Environment::of(arguments.js.env);
  // Made once per model, before anyone's grammar.
  return environment->start(
      {.client = ""},
      [tokens = arguments.at(0, "tokens").bytes(), offsets = arguments.at(1, "offsets").int32s(),
       special = arguments.at(2, "special").int32s(), end = arguments.at(3, "end").int32s()] {
        try {
          return std::make_shared<const grammar::Vocabulary>(tokens, offsets, special, end);
        } catch (const std::invalid_argument& error) {
          throw Failure{"invalid_argument", error.what(), "vocabulary"};
        }
      },
      [environment](Js js, std::shared_ptr<const grammar::Vocabulary> vocabulary) {
        return wrap(*environment, std::make_unique<GrammarVocabulary>(js, std::move(vocabulary)));
      });
}

// ---- compiling

namespace {

grammar::Budgets budgets_of(const Argument& given) {
  grammar::Budgets budgets;
  if (given.missing()) return budgets;
  given.object();
  const auto read = [&](const char* name, int64_t& value, int64_t max) {
    if (const auto budget = given.given(name)) value = budget->integer(1, max);
  };
  read("milliseconds", budgets.milliseconds, 600'000);
  read("states", budgets.states, 100'000'000);
  read("bytes", budgets.bytes, int64_t(1) << 40);
  // Nested expressions are read by nested calls.
  read("nesting", budgets.nesting, 1000);
  read("rules", budgets.rules, 10'000'000);
  return budgets;
}

}  // namespace

napi_value compile_grammar(const Arguments& arguments) {
  const auto* vocabulary = unwrap<GrammarVocabulary>(arguments.js, arguments.values[0], kGrammarVocabularyClass);
  if (!vocabulary) invalid("vocabulary", "must be a GrammarVocabulary");
  auto control = control_of(arguments.at(4, "cancellation"));
  if (!control) control = std::make_shared<CallControl>();
  auto environment = Environment::of(arguments.js.env);
  return environment->start(
      {.control = control, .client = arguments.at(3, "client").text(1024)},
      [from = vocabulary->vocabulary(), program = arguments.at(1, "program").int32s(),
       budgets = budgets_of(arguments.at(2, "budgets")),
       control] { return grammar::Grammar::compile(from, program, budgets, {}, &control->aborted); },
      [environment](Js, std::shared_ptr<grammar::Grammar> grammar) {
        return wrap(*environment, std::make_unique<CompiledGrammar>(std::move(grammar)));
      });
}

napi_value CompiledGrammar::matcher(const Arguments& arguments) {
  return wrap(*Environment::of(arguments.js.env), std::make_unique<GrammarMatcher>(grammar::Matcher(grammar_)));
}

// ---- matcher

napi_value GrammarMatcher::accept(const Arguments& arguments) {
  const int token = arguments.at(0, "token").whole(0, matcher_.grammar().vocabulary().size() - 1);
  return arguments.js.boolean(matcher_.accept(token));
}

napi_value GrammarMatcher::accept_bytes(const Arguments& arguments) {
  return arguments.js.boolean(matcher_.accept_bytes(arguments.at(0, "bytes").bytes()));
}

napi_value GrammarMatcher::mask(const Arguments& arguments) {
  const Argument into = arguments.at(0, "into");
  const auto mask = matcher_.mask();
  if (into.missing()) return arguments.js.words(*mask);
  const auto place = into.words(mask->size());
  std::copy(mask->begin(), mask->end(), place.begin());
  return into.value();
}

napi_value GrammarMatcher::complete(const Arguments& arguments) { return arguments.js.boolean(matcher_.complete()); }
napi_value GrammarMatcher::finished(const Arguments& arguments) { return arguments.js.boolean(matcher_.finished()); }
napi_value GrammarMatcher::steps(const Arguments& arguments) { return arguments.js.number(double(matcher_.steps())); }

napi_value GrammarMatcher::forced(const Arguments& arguments) { return arguments.js.number(matcher_.forced()); }

napi_value GrammarMatcher::rewind(const Arguments& arguments) {
  matcher_.rewind(size_t(arguments.at(0, "steps").integer(0, int64_t(matcher_.steps()))));
  return arguments.js.undefined();
}

napi_value GrammarMatcher::clone(const Arguments& arguments) {
  return wrap(*Environment::of(arguments.js.env), std::make_unique<GrammarMatcher>(matcher_));
}

void define_grammar(Js js) {
  define_class<GrammarVocabulary>(js, "GrammarVocabulary", {getter<&GrammarVocabulary::size>("size")});
  define_class<CompiledGrammar>(js, "CompiledGrammar", {describe<&CompiledGrammar::matcher>("matcher")});
  define_class<GrammarMatcher>(
      js, "GrammarMatcher",
      {describe<&GrammarMatcher::accept>("accept"), describe<&GrammarMatcher::accept_bytes>("acceptBytes"),
       describe<&GrammarMatcher::mask>("mask"), getter<&GrammarMatcher::complete>("complete"),
       getter<&GrammarMatcher::finished>("finished"), getter<&GrammarMatcher::steps>("steps"),
       describe<&GrammarMatcher::forced>("forced"), describe<&GrammarMatcher::rewind>("rewind"),
       describe<&GrammarMatcher::clone>("clone")});
}

}  // namespace anneal::addon
