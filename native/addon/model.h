// A loaded model as JavaScript sees it: slots, adapter versions, steps.
#pragma once
#include "handles.h"

namespace anneal::addon {

class Model {
 public:
  static constexpr Class kClass = kModelClass;
  explicit Model(std::shared_ptr<ModelHandle> handle);

  napi_value info(const Arguments&);                   // {pages, pageGroups, recurrentStates, takesGuesses, bytes, kernelSet}
  napi_value open_slot(const Arguments&);              // (params) -> slot
  napi_value close_slot(const Arguments&);             // (slot)
  napi_value step(const Arguments&);                   // (sequences, cancellation?) -> promise
  napi_value copy_pages(const Arguments&);             // (from, to)
  napi_value copy_recurrent_states(const Arguments&);  // (from, to)
  napi_value load_adapter(const Arguments&);           // (spec, tensors) -> promise of the version
  napi_value release_adapter(const Arguments&);        // (version)
  napi_value adapter_bytes(const Arguments&);          // (version) -> number
  napi_value train_adapter(const Arguments&);          // (spec, seed, tensors | null) -> promise of a Trainer
  napi_value train_weights(const Arguments&);          // () -> promise of a Trainer
  napi_value keep_training_memory(const Arguments&);   // (whether)
  napi_value close(const Arguments&);

 private:
  napi_value make_trainer(training::OpenTrainers::Place place,
                          std::function<std::unique_ptr<backends::Trainable>(backends::Backend&)> make);
  std::shared_ptr<ModelHandle> handle_;
};

napi_value start_step(const std::shared_ptr<ModelHandle>& handle, const Arguments& arguments);
void define_model(Js js);
// load({config, tensors, dtype, kvPages, recurrentStates?, kernelSet?}, cancellation?) -> promise of a Model
napi_value load_model(const Arguments& arguments);
// givenLogits({vocab, maxPositions, pages}) -> a Model without weights: it samples from logits that come with its steps
napi_value given_logits_model(const Arguments& arguments);

}  // namespace anneal::addon
