// Training as JavaScript sees it: a trainer over an adapter or all weights, and passes with their activations.
#pragma once
#include "handles.h"

namespace anneal::addon {

class Trainer {
 public:
  static constexpr Class kClass = kTrainerClass;
  explicit Trainer(std::shared_ptr<TrainerHandle> handle);

  napi_value steps(const Arguments&);
  napi_value tensors(const Arguments&);
  napi_value forward(const Arguments&);  // (rows, memoryBudget, cancellation?, entropyGradient?, keepBytes?) -> promise
                                         // of {pass, logprobs, entropies}
  napi_value evaluate(
      const Arguments&);  // (rows, adapter | undefined, cancellation?) -> promise of the same without pass
  // (trained: passes of rows, evaluated: passes of rows, memoryBudget, entropyGradient?) -> promise of {passes, state}
  napi_value memory(const Arguments&);
  napi_value optim_step(const Arguments&);  // (settings) -> promise of gradNorm
  napi_value zero_grad(const Arguments&);
  napi_value publish(const Arguments&);  // -> promise of the version
  napi_value read(const Arguments&);     // (part, tensor?) -> promise of named tensors
  napi_value hold(const Arguments&);     // -> promise
  napi_value held(const Arguments&);     // (part, from, Float32Array): numbers of what is held, from one on
  napi_value rest(const Arguments&);     // -> promise
  napi_value write(const Arguments&);    // (part, tensors, steps?) -> promise
  napi_value close(const Arguments&);
  napi_value closed(const Arguments&);  // -> promise, of its memory

 private:
  // settle(js, what work(trainer) returned), of work on the dispatcher that ends when the trainer or its model is
  // closed.
  template <class Work, class Settle>
  napi_value start(Work work, Settle settle, std::shared_ptr<CallControl> control = nullptr);
  std::shared_ptr<TrainerHandle> handle_;
};

class Pass {
 public:
  static constexpr Class kClass = kPassClass;
  Pass(std::shared_ptr<TrainerHandle> trainer, std::shared_ptr<PassState> state);
  ~Pass();

  napi_value backward(const Arguments&);  // (dLogprobs, dEntropies | undefined) -> promise
  napi_value close(const Arguments&);

 private:
  std::shared_ptr<TrainerHandle> trainer_;
  std::shared_ptr<PassHolder> holder_ = std::make_shared<PassHolder>();
};

void define_trainer(Js js);

}  // namespace anneal::addon
