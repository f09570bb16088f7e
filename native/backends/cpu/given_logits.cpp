#include "given_logits.h"

#include <stdexcept>

#include "../../executor/float_mode.h"

namespace anneal::cpu {

using backends::WantedLogits;

namespace {

[[noreturn]] void no_weights() { throw std::logic_error("a model whose logits are given has no weights"); }

}  // namespace

GivenLogits::GivenLogits(const model::ModelSpec& spec, executor::Pool& pool, int pages)
    : spec_(spec), kernels_(*kernels(best_isa(), DType::f32)), pages_(pages), sampler_(kernels_, pool, spec.vocab) {}

const char* GivenLogits::name() const { return isa_name(kernels_.isa); }

const backends::Logits* GivenLogits::step(std::span<const backends::Run> runs) {
  rows_.at.clear();
  for (const backends::Run& run : runs) {
    const int rows = run.logit_rows();
    for (int i = 0; i < rows; ++i) rows_.at.push_back(run.given_logits + int64_t(i) * spec_.vocab);
  }
  rows_.rows = int(rows_.at.size());
  return &rows_;
}

bool GivenLogits::sample(const backends::Logits&, std::span<const backends::RowRequest> requests,
                         std::span<backends::RowResult> results) {
  return sampler_.sample([this](int row) { return rows_.at[size_t(row)]; }, requests, results);
}

backends::AdapterRef GivenLogits::load_adapter(const model::LoraSpec&, const backends::AdapterValues&) { no_weights(); }

std::unique_ptr<backends::Trainable> GivenLogits::train_adapter(const model::LoraSpec&, uint64_t,
                                                                const backends::AdapterValues*) {
  no_weights();
}

std::unique_ptr<backends::Trainable> GivenLogits::train_weights() { no_weights(); }

std::unique_ptr<backends::TrainPass> GivenLogits::forward(std::span<const backends::TrainRow>, backends::Trainable*,
                                                          const backends::AdapterRef&, const backends::PassOptions&) {
  no_weights();
}

}  // namespace anneal::cpu
