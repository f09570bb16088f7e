#include "handles.h"

namespace anneal::addon {

void ModelHandle::require_open() const {
  if (!state) throw Failure{"closed", "the model was closed", ""};
}

AdapterRef ModelHandle::adapter(const Argument& version) const {
  const auto id = int32_t(version.integer(0, INT32_MAX));
  if (id == 0) return nullptr;
  const AdapterRef* found = adapters.find(id);
  if (!found) invalid(version.path(), "is no adapter version of this model: " + std::to_string(id));
  return *found;
}

void ModelHandle::close() {
  if (!state) return;
  pending.close(*environment->executor());
  for (auto& known : opened)
    if (auto trainer = known.lock()) trainer->close();
  opened.clear();
  slots.clear();
  adapters.clear();
  environment->executor()->retire(std::move(state));
}

void TrainerHandle::require_open() const {
  model->require_open();
  if (!state) throw Failure{"closed", "the trainer was closed", ""};
}

void TrainerHandle::close() {
  if (!state) return;
  auto& executor = *model->environment->executor();
  pending.close(executor);
  for (auto& known : passes)
    if (auto pass = known.lock(); pass && pass->state) executor.retire(std::move(pass->state));
  passes.clear();
  executor.retire(std::move(state));
  held.reset();
  place.reset();
}

}  // namespace anneal::addon
