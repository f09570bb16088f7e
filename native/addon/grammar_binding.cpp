#include "grammar_binding.h"

#include <algorithm>

namespace anneal::addon {

namespace {

// Starts long work of grammars in the background, with its errors as failures.
napi_value start(Js js, Environment::Options options, std::function<void()> work,
                 std::function<napi_value(Js)> settle) {
  return Environment::of(js.env)->start(
      options,
      [work = std::move(work)] {
        try {
          work();
        } catch (const grammar::GrammarError& error) {
          throw Failure{error.code, error.what(), error.param};
        } catch (const std::invalid_argument& error) {
          throw Failure{"invalid_argument", error.what(), "vocabulary"};
        }
      },
      std::move(settle));
}

// Errors of a matcher's own, which it has only when a grammar is ambiguous beyond all bounds.
template <class F> auto guarded_matcher(F&& body) {
  try {
    return body();
  } catch (const grammar::GrammarError& error) {
    throw Failure{error.code, error.what(), error.param};
  }
}

template <class T, napi_value (T::*Get)(const Arguments&)> napi_property_descriptor getter(const char* name) {
  return {name, nullptr, nullptr, method<T, Get>, nullptr, nullptr, napi_enumerable, nullptr};
}

}  // namespace

// ---- vocabulary

GrammarVocabulary::GrammarVocabulary(Js js, std::shared_ptr<const grammar::Vocabulary> vocabulary)
    : js_(js), vocabulary_(std::move(vocabulary)) {
  int64_t now;
  napi_adjust_external_memory(js_.env, int64_t(vocabulary_->memory()), &now);
}

GrammarVocabulary::~GrammarVocabulary() {
  int64_t now;
  napi_adjust_external_memory(js_.env, -int64_t(vocabulary_->memory()), &now);
}

napi_value GrammarVocabulary::size(const Arguments& arguments) { return arguments.js.number(vocabulary_->size()); }

napi_value grammar_vocabulary(const Arguments& arguments) {
  const Path tokens_path("tokens"), offsets_path("offsets"), special_path("special"), end_path("end");
  auto tokens = std::make_shared<std::vector<uint8_t>>(arguments.at(0, tokens_path).bytes());
  const auto list = [&](size_t index, const Path& path) {
    return std::make_shared<std::vector<int32_t>>(arguments.at(index, path).int32s());
  };
  auto offsets = list(1, offsets_path), special = list(2, special_path), end = list(3, end_path);
  auto made = std::make_shared<std::shared_ptr<const grammar::Vocabulary>>();
  auto environment = Environment::of(arguments.js.env);
  // Made once per model, before anyone's grammar.
  return start(
      arguments.js, {.client = ""},
      [=] { *made = std::make_shared<grammar::Vocabulary>(*tokens, *offsets, *special, *end); },
      [environment, made](Js js) {
        return wrap(*environment, std::make_unique<GrammarVocabulary>(js, std::move(*made)));
      });
}

// ---- compiling

napi_value compile_grammar(const Arguments& arguments) {
  const Path vocabulary_path("vocabulary"), program_path("program"), budgets_path("budgets");
  const auto* vocabulary = unwrap<GrammarVocabulary>(arguments.js, arguments.values[0], kGrammarVocabularyClass);
  if (!vocabulary) invalid(vocabulary_path, "must be a GrammarVocabulary");
  auto program = std::make_shared<std::vector<int32_t>>(arguments.at(1, program_path).int32s());
  grammar::Budgets budgets;
  const auto given = arguments.at(2, budgets_path);
  if (!given.missing()) {
    given.object();
    const auto read = [&](const char* name, int64_t& value, int64_t max) {
      given.field(name, [&](Argument a) {
        if (!a.missing()) value = a.integer(1, max);
      });
    };
    read("milliseconds", budgets.milliseconds, 600'000);
    read("states", budgets.states, 100'000'000);
    read("bytes", budgets.bytes, int64_t(1) << 40);
    // Nested expressions are read by nested calls.
    read("nesting", budgets.nesting, 1000);
    read("rules", budgets.rules, 10'000'000);
  }
  const Path client_path("client"), cancellation_path("cancellation");
  auto control = control_of(arguments.at(4, cancellation_path));
  if (!control) control = std::make_shared<CallControl>();
  auto made = std::make_shared<std::shared_ptr<grammar::Grammar>>();
  auto environment = Environment::of(arguments.js.env);
  return start(
      arguments.js, {.control = control, .client = arguments.at(3, client_path).text(1024)},
      [=, from = vocabulary->vocabulary()] {
        *made = grammar::Grammar::compile(from, *program, budgets, {}, &control->aborted);
      },
      [environment, made](Js) { return wrap(*environment, std::make_unique<CompiledGrammar>(std::move(*made))); });
}

napi_value CompiledGrammar::matcher(const Arguments& arguments) {
  return wrap(*Environment::of(arguments.js.env), std::make_unique<GrammarMatcher>(grammar::Matcher(grammar_)));
}

// ---- matcher

napi_value GrammarMatcher::accept(const Arguments& arguments) {
  const Path path("token");
  const auto token = int32_t(arguments.at(0, path).integer(0, matcher_.grammar().vocabulary().size() - 1));
  return arguments.js.boolean(guarded_matcher([&] { return matcher_.accept(token); }));
}

napi_value GrammarMatcher::accept_bytes(const Arguments& arguments) {
  const Path path("bytes");
  const auto bytes = arguments.at(0, path).bytes();
  return arguments.js.boolean(guarded_matcher([&] { return matcher_.accept_bytes(bytes); }));
}

napi_value GrammarMatcher::mask(const Arguments& arguments) {
  const Path path("into");
  const auto into = arguments.at(0, path);
  const auto mask = guarded_matcher([&] { return matcher_.mask(); });
  if (into.missing()) return arguments.js.words(mask->data(), mask->size());
  const auto place = into.words(mask->size());
  std::copy(mask->begin(), mask->end(), place.begin());
  return into.value();
}

napi_value GrammarMatcher::complete(const Arguments& arguments) { return arguments.js.boolean(matcher_.complete()); }
napi_value GrammarMatcher::finished(const Arguments& arguments) { return arguments.js.boolean(matcher_.finished()); }
napi_value GrammarMatcher::steps(const Arguments& arguments) { return arguments.js.number(double(matcher_.steps())); }

napi_value GrammarMatcher::forced(const Arguments& arguments) {
  return arguments.js.number(guarded_matcher([&] { return matcher_.forced(); }));
}

napi_value GrammarMatcher::rewind(const Arguments& arguments) {
  const Path path("steps");
  matcher_.rewind(size_t(arguments.at(0, path).integer(0, int64_t(matcher_.steps()))));
  return arguments.js.undefined();
}

napi_value GrammarMatcher::clone(const Arguments& arguments) {
  return wrap(*Environment::of(arguments.js.env), std::make_unique<GrammarMatcher>(matcher_));
}

void define_grammar(Js js) {
  define_class<GrammarVocabulary>(js, "GrammarVocabulary",
                                  {getter<GrammarVocabulary, &GrammarVocabulary::size>("size")});
  define_class<CompiledGrammar>(js, "CompiledGrammar",
                                {describe<CompiledGrammar, &CompiledGrammar::matcher>("matcher")});
  define_class<GrammarMatcher>(js, "GrammarMatcher",
                               {describe<GrammarMatcher, &GrammarMatcher::accept>("accept"),
                                describe<GrammarMatcher, &GrammarMatcher::accept_bytes>("acceptBytes"),
                                describe<GrammarMatcher, &GrammarMatcher::mask>("mask"),
                                getter<GrammarMatcher, &GrammarMatcher::complete>("complete"),
                                getter<GrammarMatcher, &GrammarMatcher::finished>("finished"),
                                getter<GrammarMatcher, &GrammarMatcher::steps>("steps"),
                                describe<GrammarMatcher, &GrammarMatcher::forced>("forced"),
                                describe<GrammarMatcher, &GrammarMatcher::rewind>("rewind"),
                                describe<GrammarMatcher, &GrammarMatcher::clone>("clone")});
}

}  // namespace anneal::addon
