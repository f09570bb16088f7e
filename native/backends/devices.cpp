#include "devices.h"

#include "cpu/cpu_device.h"
#include "cpu/given_logits.h"

namespace anneal::backends {

std::unique_ptr<Device> open_device(executor::Pool& pool) { return std::make_unique<cpu::CpuDevice>(pool); }

std::unique_ptr<Backend> open_sampler(executor::Pool& pool, const model::ModelSpec& spec, int pages) {
  return std::make_unique<cpu::GivenLogits>(spec, pool, pages);
}

}  // namespace anneal::backends
