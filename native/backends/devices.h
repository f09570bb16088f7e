// The devices there are. A further one is a folder beside cpu/ and a line here.
#pragma once
#include <memory>

#include "../executor/pool.h"
#include "backend.h"

namespace anneal::backends {

// The device that a model runs on here. Work on the processor is done by `pool`, which must outlive the device and its
// models.
std::unique_ptr<Device> open_device(executor::Pool& pool);

// A backend without weights, for a model whose logits are computed elsewhere and come with every run: it samples. Of
// the spec it uses what steps are checked by: vocab and max_positions.
std::unique_ptr<Backend> open_sampler(executor::Pool& pool, const model::ModelSpec&, int pages);

}  // namespace anneal::backends
